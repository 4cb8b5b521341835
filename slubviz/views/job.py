"""What the window asks of the model: a job to run, the names to choose from, a recorded session.

The views know the model only through these small types, so that a test can put any object
with the same methods in the place of a real session.  Nothing here imports Qt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from slubviz.model.snapshot import PhaseView, Snapshot
from slubviz.model.workload import Sweep

if TYPE_CHECKING:
    from slubviz.model.compare_table import CellKey
    from slubviz.model.results import CellResult
    from slubviz.model.travel.bookmarks import Bookmark
    from slubviz.model.travel.branches import Branch
    from slubviz.model.travel.changes import Change, What


@dataclass(frozen=True)
class JobSpec:
    """What is to be run.

    Attributes
    ----------
    machine, kernel, test : str
        Names from the catalog, or paths of the user's own files.
    sizes : tuple of int
        Object sizes in bytes, run one after the other.
    ops : int
        Measured operations of each CPU.
    seed : int
        Seed of everything that is random in a run.
    cpus : int or None
        Number of CPUs; None is what the machine has.
    objects : tuple of int
        Objects per bulk call, run one after the other; for tests that have such calls.
    """

    machine: str
    kernel: str
    test: str
    sizes: tuple[int, ...]
    ops: int
    seed: int = 1
    cpus: int | None = None
    objects: tuple[int, ...] = ()


def _size_swept(test: str) -> Sweep:
    return Sweep.SIZE


@dataclass(frozen=True)
class Catalog:
    """Names to choose from, each with a one-line description.

    Attributes
    ----------
    points : callable
        Machine and test -> object sizes in bytes, or objects per bulk call, that the test runs through.
    sweep : callable
        Test -> what its cells differ in.
    faulty : set of str
        Kernels that are known to have a fault; their descriptions say which.
    scenarios : callable
        The scenarios and their titles, in the order of a talk; reads their files, so it is asked late.
    """

    machines: Mapping[str, str]
    kernels: Mapping[str, str]
    tests: Mapping[str, str]
    points: Callable[[str, str], Sequence[int]]
    sweep: Callable[[str], Sweep] = _size_swept
    faulty: frozenset[str] = frozenset()
    scenarios: Callable[[], Mapping[str, str]] = dict


class SessionLike(Protocol):
    """The part of a session that the window uses; called on one worker thread only."""

    @property
    def finished(self) -> bool: ...

    @property
    def fault(self) -> str: ...

    @property
    def results(self) -> Sequence[CellResult]: ...

    def snapshot(self) -> Snapshot: ...

    def phase_view(self) -> PhaseView | None: ...

    def source_text(self, file: str) -> str: ...


class RecordingLike(Protocol):
    """The part of a recording that the window uses; called on one worker thread only."""

    bookmarks: list[Bookmark]

    @property
    def session(self) -> SessionLike: ...

    @property
    def position(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def over(self) -> bool: ...

    @property
    def branch(self) -> Branch: ...

    @property
    def branches(self) -> tuple[Branch, ...]: ...

    @property
    def changes(self) -> tuple[Change, ...]: ...

    def boot(self) -> None: ...

    def run(self, micro_ops: int, /, *, stop_at_phase_end: bool = False) -> object: ...

    def step(self) -> object: ...

    def step_back(self) -> bool: ...

    def seek(
        self,
        position: int,
        /,
        *,
        stop: threading.Event | None = None,
        progress: Callable[[float], None] | None = None,
        prepare: bool = True,
    ) -> bool: ...

    def prepare_steps_back(self) -> None: ...

    def change(self, what: What, /) -> Branch: ...

    def switch(
        self, number: int, /, position: int | None = None, *, stop: threading.Event | None = None
    ) -> bool: ...

    def rename(self, number: int, name: str, /) -> None: ...


RecordingFactory = Callable[[JobSpec], RecordingLike]


def job_of(key: CellKey, catalog: Catalog, ops: int, seed: int) -> JobSpec:
    """The job that measures a published cell: its point, or all where one number stands for all."""
    sweep = catalog.sweep(key.test)
    points = (key.point,) if key.point else tuple(catalog.points(key.machine, key.test))
    return JobSpec(
        machine=key.machine,
        kernel=key.kernel,
        test=key.test,
        sizes=points if sweep == Sweep.SIZE else (),
        ops=ops,
        seed=seed,
        objects=points if sweep == Sweep.OBJECTS else (),
    )
