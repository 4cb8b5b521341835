"""The simulated machine: micro-ops, CPUs, cache lines, locks, interrupts, costs.  Knows nothing of
slabs."""
