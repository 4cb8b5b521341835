"""Small sessions for tests."""

from __future__ import annotations

from dataclasses import replace

from slubviz.hw.isa import F_IMM, F_OP, WORDS, CpuState, Op
from slubviz.hw.layout import C_STATE
from slubviz.hw.machine_file import CacheGeometry
from slubviz.model.machines import load_machine
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session


def session(
    tests: str,
    sizes: tuple[int, ...],
    ops: int,
    kernel: str = "slub",
    *,
    cpus: int | None = None,
    seed: int = 1,
    small_caches: bool = False,
    warm_up: bool = False,
    **options: int,
) -> Session:
    """A booted session on the E5345 machine; ``tests`` share a boot, e.g. "AB".

    With ``small_caches`` the state is small, so that it can be copied thousands of times.
    """
    spec = SessionSpec(
        "e5345_8p",
        kernel,
        tests[0],
        sizes,
        ops,
        seed,
        cpus=cpus,
        options=options,
        warm_up=warm_up,
        tests=tuple(tests),
    )
    machine = (
        replace(load_machine("e5345_8p", cpus), l2=CacheGeometry(64 * 1024, 16)) if small_caches else None
    )
    made = Session(spec, machine)
    made.boot()
    return made


def operation_end_pcs(made: Session) -> list[int]:
    """The micro-ops that count a finished operation of the workload."""
    program = made.booted.program
    counter = program.counters.index("OPERATIONS")
    rows = program.code.reshape(-1, WORDS)
    return [pc for pc, row in enumerate(rows) if row[F_OP] == Op.COUNT and row[F_IMM] == counter]


def all_idle(made: Session) -> bool:
    """Whether no CPU runs anything."""
    return bool((made.machine.cpu_blocks()[:, C_STATE] == CpuState.HALTED).all())
