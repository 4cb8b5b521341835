"""What differs between two pictures of a machine, for marks in a view that shows two runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from slubviz.hw.isa import CpuState
from slubviz.model.snapshot import CpuView, LockView, SlabState, Snapshot


@dataclass(frozen=True)
class Difference:
    """One thing that differs."""

    kind: str  #: "cpu", "lock", "slab", "node" or "run"
    key: int | str  #: CPU, name of the lock, page frame, node; "" for the run
    field: str  #: e.g. "state", "holder", "inuse"
    a: str  #: as a view shows it, "-" where there is no such thing
    b: str

    @property
    def what(self) -> str:
        """Thing and field, e.g. ``CPU 3 state``."""
        name = {"cpu": "CPU ", "slab": "slab ", "node": "node "}.get(self.kind, "")
        return f"{name}{self.key} {self.field}".strip()


def differences(a: Snapshot, b: Snapshot) -> tuple[Difference, ...]:
    """All differences: of the run, of CPUs, of locks in use, of slabs of the shown cache, of nodes."""
    return (
        *_run_differences(a, b),
        *_cpu_differences(a.cpus, b.cpus),
        *_lock_differences(a.locks, b.locks),
        *_slab_differences(a, b),
        *_node_differences(a, b),
    )


def _compared(kind: str, key: int | str, a: dict[str, str], b: dict[str, str]) -> Iterator[Difference]:
    for field in dict.fromkeys((*a, *b)):
        first, second = a.get(field, "-"), b.get(field, "-")
        if first != second:
            yield Difference(kind, key, field, first, second)


def _run_differences(a: Snapshot, b: Snapshot) -> Iterator[Difference]:
    yield from _compared("run", "", _run_fields(a), _run_fields(b))


def _run_fields(picture: Snapshot) -> dict[str, str]:
    phase = picture.phase
    return {
        "finished": _yes(picture.finished),
        "fault": picture.fault or "none",
        "phase": f"{phase.test} {phase.operation} {phase.size_bytes}" if phase else "none",
    }


def _cpu_differences(a: Iterable[CpuView], b: Iterable[CpuView]) -> Iterator[Difference]:
    first, second = ({cpu.number: _cpu_fields(cpu) for cpu in cpus} for cpus in (a, b))
    for number in sorted(first.keys() | second.keys()):
        yield from _compared("cpu", number, first.get(number, {}), second.get(number, {}))


def _cpu_fields(cpu: CpuView) -> dict[str, str]:
    frames = " > ".join(f"{frame.function}:{frame.line}" for frame in cpu.frames)
    return {
        "state": CpuState(cpu.state).name.lower().replace("_", " "),
        "clock": f"{cpu.clock_cycles:,.1f}",
        "frames": frames or "none",
        "interrupts": "on" if cpu.interrupts_enabled else "off",
        "preempt count": str(cpu.preempt_count),
        "interrupt depth": str(cpu.interrupt_depth),
        "waits for": cpu.waits_for or "nothing",
        "operations": str(cpu.operations),
        **dict(cpu.extra),
    }


def _lock_differences(a: Iterable[LockView], b: Iterable[LockView]) -> Iterator[Difference]:
    first, second = ({lock.name: _lock_fields(lock) for lock in locks} for locks in (a, b))
    for name in sorted(first.keys() | second.keys()):
        free = {"holder": "free", "waiters": "none"}
        yield from _compared("lock", name, first.get(name, free), second.get(name, free))


def _lock_fields(lock: LockView) -> dict[str, str]:
    waiters = ", ".join(f"CPU {cpu}" for cpu in lock.waiters)
    return {"holder": f"CPU {lock.holder}" if lock.holder >= 0 else "free", "waiters": waiters or "none"}


def _slab_differences(a: Snapshot, b: Snapshot) -> Iterator[Difference]:
    first, second = _slab_fields(a), _slab_fields(b)
    for frame in sorted(first.keys() | second.keys()):
        yield from _compared("slab", frame, first.get(frame, {}), second.get(frame, {}))


def _slab_fields(picture: Snapshot) -> dict[int, dict[str, str]]:
    table = picture.slabs
    found = {}
    for i, frame in enumerate(table.page_frame.tolist()):
        cpu, chain = int(table.cpu[i]), int(table.on_cpu_partial[i])
        states = table.object_state[table.first_object[i] : table.first_object[i + 1]]
        found[int(frame)] = {
            "state": SlabState(int(table.state[i])).name.lower(),
            "inuse": f"{int(table.inuse[i])} of {int(table.objects[i])}",
            "cpu slab of": f"CPU {cpu}" if cpu >= 0 else "nobody",
            "chain of": f"CPU {chain}" if chain >= 0 else "nobody",
            "frozen": _yes(bool(table.frozen[i])),
            "locked": _yes(bool(table.locked[i])),
            "on partial list": _yes(bool(table.on_partial_list[i])),
            # One character an object: free, on a CPU's freelist, allocated.
            "objects": "".join(".:#"[int(state)] for state in states),
        }
    return found


def _node_differences(a: Snapshot, b: Snapshot) -> Iterator[Difference]:
    for field, first, second in (
        ("partial slabs", a.nr_partial, b.nr_partial),
        ("slabs", a.nr_slabs, b.nr_slabs),
    ):
        for node in range(max(len(first), len(second))):
            texts = ["-" if node >= len(counts) else str(int(counts[node])) for counts in (first, second)]
            if texts[0] != texts[1]:
                yield Difference("node", node, field, texts[0], texts[1])


def differing_objects(a: Snapshot, b: Snapshot) -> dict[int, np.ndarray]:
    """Page frame -> which objects of a slab that both have are in another state; boolean, one an object."""
    first, second = _object_states(a), _object_states(b)
    found = {}
    for frame in first.keys() & second.keys():
        if len(first[frame]) == len(second[frame]):
            differ = first[frame] != second[frame]
            if differ.any():
                found[frame] = differ
    return found


def _object_states(picture: Snapshot) -> dict[int, np.ndarray]:
    table = picture.slabs
    pieces = np.split(table.object_state, table.first_object[1:-1]) if len(table.page_frame) else []
    return dict(zip((int(frame) for frame in table.page_frame), pieces, strict=True))


def _yes(value: bool) -> str:
    return "yes" if value else "no"
