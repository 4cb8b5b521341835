"""What the simulated machine raises when it is asked for something impossible."""

from __future__ import annotations


class MachineError(RuntimeError):
    """The machine was asked for something impossible (address, CPU, full interrupt table)."""
