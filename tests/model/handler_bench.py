"""A booted machine with the interrupt handlers linked: idle, or with tasks and sources of interrupts."""

from __future__ import annotations

from slubviz.hw.isa import Status
from slubviz.hw.layout import HARDWARE_COUNTERS
from slubviz.model.handlers import HeldObjects, held_objects, held_slab_objects
from slubviz.model.invariants import check
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from tests.model.slab_driver import small_machine

ORDERS = {"slub_max_order": 1, "slub_min_objects": 4}


class HandlerBench:
    """One machine, to be put back to its start as often as wanted."""

    def __init__(self, kernel: str, cpus: int = 4, nodes: int = 1, handlers: bool = True) -> None:
        options = {} if kernel.startswith("slab") else ORDERS
        spec = SessionSpec("x", kernel, "D", (8,), 64, 1, options=options, handlers=handlers)
        self.session = Session(spec, small_machine(cpus, nodes))
        self.kernel = self.session.booted
        self.machine, self.program = self.kernel.machine, self.kernel.program
        self.cpus = cpus
        assert self.machine.run() == Status.HALTED  # the session's own first phase
        self.run(0, "test_free", 0, cpus, 64)
        self._checkpoint = self.machine.copy_state()

    def again(self) -> None:
        """Back to the start."""
        self.machine.restore_state(self._checkpoint)

    def index(self, function: str) -> int:
        """Number of a function."""
        return self.program.function(function).index

    def start(self, cpu: int, function: str, *arguments: int) -> None:
        """Let an idle CPU begin a function."""
        self.machine.start(cpu, self.index(function), arguments)

    def run(self, cpu: int, function: str, *arguments: int) -> None:
        """Run a function to its end."""
        self.machine.align_clocks()
        self.start(cpu, function, *arguments)
        assert self.machine.run() == Status.HALTED

    def interrupt(self, cpu: int, handler: str, *arguments: int) -> dict[str, int]:
        """An interrupt on an idle CPU; the program's counters that it changed."""
        before = self.counters()
        self.machine.align_clocks()
        self.machine.inject(cpu, self.index(handler), arguments)
        assert self.machine.run() == Status.HALTED
        after = self.counters()
        return {name: after[name] - before[name] for name in after if after[name] != before[name]}

    def counters(self) -> dict[str, int]:
        """Every counter of the program, over all CPUs."""
        sums = self.machine.counters().sum(axis=0)[HARDWARE_COUNTERS:]
        return {name: int(value) for name, value in zip(self.program.counters, sums, strict=True)}

    def held(self) -> tuple[HeldObjects, ...]:
        """What the handlers of each CPU keep."""
        return held_objects(self.kernel)

    def problems(self, allocated: int = 0) -> list[str]:
        """Broken invariants, if ``allocated`` objects are out beside those that handlers keep."""
        return check(self.kernel, expected_allocated=allocated + held_slab_objects(self.kernel))
