"""A session that makes up plausible pictures: a function of the micro-ops executed, no simulation.

Two phases are measured for each size: every active CPU allocates its objects, then frees them in
the order of allocation; with ``clean_up`` the frees are not measured.  About ``MICRO_OPS_PER_OP``
micro-ops make an operation.  The same count of micro-ops always gives the same Snapshot.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

import numpy as np

from slubviz.hw.isa import CpuState
from slubviz.model.errors import UserError
from slubviz.model.results import CellResult, error_percent
from slubviz.model.snapshot import (
    CpuView,
    FrameView,
    LockView,
    ObjectState,
    PhaseView,
    ProgressSeries,
    SlabState,
    SlabTable,
    Snapshot,
    SourceSpan,
)
from slubviz.views.job import Catalog, JobSpec
from tests.views.fake_recording import FakeRecording

MICRO_OPS_PER_OP = 12
MICRO_OPS_PER_SECOND = 2_000_000
SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
SOURCE = '''@inline
def slab_alloc(s, node):
    """Fast path: interrupts off, pop the cpu freelist."""
    flags = irq_save()
    c = this_cpu(s.cpu_slab)
    object = c.freelist
    if object == NULL or not node_match(c, node):
        object = __slab_alloc(s, node, c)
        count(ALLOC_SLOWPATH)
    else:
        c.freelist = object.next_free
        count(ALLOC_FASTPATH)
    irq_restore(flags)
    return object


def __slab_alloc(s, node, c):
    """Slow path: refill the cpu freelist from the slab, or get another slab."""
    if c.page == NULL:
        return new_slab(s, node, c)
    slab_lock(c.page)
    object = c.page.freelist
    c.freelist = object.next_free
    c.page.inuse = s.objects
    c.page.freelist = NULL
    slab_unlock(c.page)
    return object
'''
#: Line, first and last column of the expressions that execute, in order.
_SPANS = (
    (4, 13, 23),
    (5, 9, 29),
    (6, 14, 24),
    (7, 8, 22),
    (11, 9, 39),
    (12, 9, 30),
    (13, 5, 23),
    (14, 5, 18),
)


def fake_catalog() -> Catalog:
    """Names as the model has them."""
    return Catalog(
        machines={"e5345_8p": "Dual Xeon E5345, 8 CPUs, SMP", "ia64_8p_4n": "IA64, 8 CPUs, 4 nodes"},
        kernels={"slub": "SLUB of 2.6.24-rc1", "slub+": "SLUB with the ten patches"},
        tests={
            "A": "one CPU: allocate all, then free all",
            "D": "all CPUs: allocate all, then free all",
            "F": "remote frees",
        },
        points=lambda machine, test: SIZES,
        scenarios=lambda: {"aba": "The ABA"},
    )


def fake_job(**changes: object) -> JobSpec:
    """A small job of test D on all CPUs."""
    values: dict[str, object] = {
        "machine": "e5345_8p",
        "kernel": "slub",
        "test": "D",
        "sizes": (64,),
        "ops": 200,
        "seed": 1,
        "cpus": None,
    }
    values.update(changes)
    return JobSpec(**values)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Moment:
    # Where a count of micro-ops lies in the job.
    size_index: int
    freeing: bool
    done: int  #: operations of the phase, all CPUs
    ended: bool


class FakeSession(FakeRecording):
    """Has the methods of a session and of its recording; see the module.

    Attributes
    ----------
    calls : list of str
        Names of the methods called, in order.
    threads : set of int
        Threads that called; a window must use one only.
    boot_gate : threading.Event or None
        ``boot`` waits for it, to play a long compile.
    fault_at : int or None
        Micro-op at which the machine stops with a fault.
    clean_up : bool
        The second phase of each size is a clean-up.
    """

    def __init__(self, spec: JobSpec) -> None:
        if spec.kernel == "broken":
            raise UserError("unknown kernel 'broken' (known: slub, slub+)")
        self.spec = spec
        self.calls: list[str] = []
        self.threads: set[int] = set()
        self.boot_gate: threading.Event | None = None
        self.fault_at: int | None = None
        self.clean_up = False
        self.micro_ops = 0
        self.results: list[CellResult] = []
        self.cpus = spec.cpus or 8
        self.active = 1 if spec.test == "A" else self.cpus
        self._start_recording()

    @property
    def finished(self) -> bool:
        return self._moment().ended

    @property
    def fault(self) -> str:
        if self.fault_at is not None and self.micro_ops >= self.fault_at:
            return "null pointer in slab_alloc, slub.py:11"
        return ""

    def boot(self) -> None:
        self._note("boot")
        if self.boot_gate is not None:
            self.boot_gate.wait(30)
        self._start_recording()
        self._go(0)

    def run(self, micro_ops: int, *, stop_at_phase_end: bool = False) -> None:
        self._note("run")
        if stop_at_phase_end:
            micro_ops = min(micro_ops, self._phase_micro_ops() - self.micro_ops % self._phase_micro_ops())
        time.sleep(micro_ops / MICRO_OPS_PER_SECOND)  # else the longest job would be over at once
        self._advance(micro_ops)

    def step(self) -> None:
        self._note("step")
        self._advance(1)

    def _go(self, position: int) -> None:
        self.micro_ops, self.results = 0, []
        self._advance(position)

    def phase_view(self) -> PhaseView | None:
        self._note("phase_view")
        moment = self._moment()
        return None if moment.ended else self._phase(moment)

    def source_text(self, file: str) -> str:
        self._note("source_text")
        return SOURCE

    def snapshot(self) -> Snapshot:
        self._note("snapshot")
        moment = self._moment()
        table = self._slabs(moment)
        clock = self.micro_ops * 8.3 / self.active
        size = self.spec.sizes[moment.size_index]
        return Snapshot(
            machine=self.spec.machine,
            kernel=self.spec.kernel,
            micro_ops=self.micro_ops,
            clock_cycles=clock,
            finished=moment.ended,
            fault=self.fault,
            phase=self._phase(moment),
            cpus=tuple(self._cpu(number, moment, clock) for number in range(self.cpus)),
            locks=self._locks(clock),
            cache_name=f"kmalloc-{size}",
            cache_size_bytes=size,
            slabs=table,
            nr_partial=np.array([int(table.on_partial_list.sum())]),
            nr_slabs=np.array([table.page_frame.size]),
            counters={"ALLOC_FASTPATH": moment.done, "ALLOC_SLOWPATH": moment.done // 60, "FREE_FROZEN": 0},
            progress=self._progress(moment),
            total_slabs=int(table.page_frame.size),
        )

    def _note(self, name: str) -> None:
        self.calls.append(name)
        self.threads.add(threading.get_ident())

    def _phase_micro_ops(self) -> int:
        return self.spec.ops * self.active * MICRO_OPS_PER_OP

    def _advance(self, micro_ops: int) -> None:
        last = self._phase_micro_ops() * 2 * len(self.spec.sizes)
        if self.fault_at is not None:
            last = min(last, self.fault_at)
        self.micro_ops = min(self.micro_ops + micro_ops, last)
        self._recorded()
        ended = range(self.micro_ops // self._phase_micro_ops())
        measured = [index for index in ended if not (self.clean_up and index % 2)]
        self.results += [self._result(index) for index in measured[len(self.results) :]]

    def _moment(self) -> _Moment:
        phase, rest = divmod(self.micro_ops, self._phase_micro_ops())
        if phase >= 2 * len(self.spec.sizes):
            return _Moment(len(self.spec.sizes) - 1, True, self.spec.ops * self.active, True)
        return _Moment(phase // 2, bool(phase % 2), rest // MICRO_OPS_PER_OP, False)

    def _result(self, index: int) -> CellResult:
        size = self.spec.sizes[index // 2]
        mean = 86.0 + math.log2(size) * 9 + (40 if index % 2 else 0)
        published = (mean * 0.97, mean * 0.97)
        return CellResult(
            machine=self.spec.machine,
            kernel=self.spec.kernel,
            test=self.spec.test,
            operation="kfree" if index % 2 else "kmalloc",
            size_bytes=size,
            cpus=self.active,
            ops=self.spec.ops,
            cycles_per_op=mean,
            cycles_per_op_min_cpu=mean - 1,
            cycles_per_op_max_cpu=mean + 1,
            published_low=published[0],
            published_high=published[1],
            error_percent=error_percent(mean, published),
        )

    def _phase(self, moment: _Moment) -> PhaseView:
        size = self.spec.sizes[moment.size_index]
        band = self.spec.test == "F"
        return PhaseView(
            index=moment.size_index * 2 + moment.freeing,
            count=2 * len(self.spec.sizes),
            test=self.spec.test,
            operation=("cleanup" if self.clean_up else "kfree") if moment.freeing else "kmalloc",
            size_bytes=size,
            measured=not (moment.freeing and self.clean_up),
            operations_total=self.spec.ops * self.active,
            published_low=129.0,
            published_high=140.0 if band else 129.0,
            ops=self.spec.ops,
        )

    def _progress(self, moment: _Moment) -> ProgressSeries:
        count = min(moment.done, 400)
        operations = np.linspace(1, max(moment.done, 1), count).astype(np.int64)
        mean = 131.0 + 120.0 / np.sqrt(operations + 3.0) + 2.0 * np.sin(operations / 40.0)
        return ProgressSeries(operations, mean)

    def _cpu(self, number: int, moment: _Moment, clock: float) -> CpuView:
        if number >= self.active or moment.ended:
            state, frames, span = CpuState.HALTED, (), None
        else:
            state = CpuState.WAITING_LOCK if number in self._waiters() else CpuState.RUNNING
            line, column, end = _SPANS[(self.micro_ops // self.active + number * 3) % len(_SPANS)]
            span = SourceSpan("slub.py", line, column, line, end)
            frames = self._frames(number, line)
        done = moment.done // self.active
        return CpuView(
            number=number,
            node=0,
            state=int(state),
            clock_cycles=clock - number * 3,
            micro_ops=self.micro_ops // self.active,
            interrupts_enabled=state is CpuState.HALTED or number % 3 == 0,
            preempt_count=1,
            interrupt_depth=int(any(frame.interrupt for frame in frames)),
            frames=frames,
            span=span,
            micro_op_text="LD r4 = m[r2 + 16]" if span else "",
            waits_for="zone->lock node 0" if state is CpuState.WAITING_LOCK else "",
            waits_since_cycles=clock - 400 - 150 * number,
            operations=done if number < self.active else 0,
            slow_path_operations=done // 60,
        )

    def _frames(self, number: int, line: int) -> tuple[FrameView, ...]:
        names = [("test_kmalloc", False), ("kmalloc", False), ("slab_alloc", False)]
        if number == 5:
            names += [("timer_interrupt", True), ("kmalloc", False), ("slab_alloc", False)]
        elif number == 3:
            names += [
                ("__slab_alloc", False),
                ("new_slab", False),
                ("alloc_pages", False),
                ("rmqueue_bulk", False),
            ]
        return tuple(FrameView(name, "slub.py", line, interrupt) for name, interrupt in names)

    def _waiters(self) -> tuple[int, ...]:
        if self.active < 8 or self.micro_ops // 97 % 3 == 0:
            return ()
        return (1, 6) if self.micro_ops // 97 % 3 == 1 else (6,)

    def _locks(self, clock: float) -> tuple[LockView, ...]:
        waiters = self._waiters()
        if not waiters:
            return ()
        return (
            LockView("slab_lock pfn 812", 4096, 4, clock - 30, ()),
            LockView("zone->lock node 0", 2048, 3, clock - 900, waiters),
        )

    def _slabs(self, moment: _Moment) -> SlabTable:
        size = self.spec.sizes[moment.size_index]
        per_slab = max(1, 4096 // size)
        done = moment.done // self.active
        parts = [self._cpu_slabs(cpu, done, per_slab, moment.freeing) for cpu in range(self.active)]
        states = np.concatenate([part[0] for part in parts])
        cpu_slab = np.concatenate([part[1] for part in parts])
        last = np.concatenate([np.full(part[1].size, cpu) for cpu, part in enumerate(parts)])
        inuse = (states != int(ObjectState.FREE)).sum(axis=1)
        allocated = (states == int(ObjectState.ALLOCATED)).sum(axis=1)
        full = np.where(inuse == per_slab, int(SlabState.FULL), int(SlabState.PARTIAL))
        count = states.shape[0]
        return SlabTable(
            page_frame=800 + np.arange(count),
            node=np.zeros(count, dtype=np.int64),
            cpu=np.where(cpu_slab, last, -1),
            state=np.where(inuse == 0, int(SlabState.EMPTY), full).astype(np.uint8),
            frozen=cpu_slab,
            locked=np.arange(count) == 12,
            on_partial_list=~cpu_slab & (inuse < per_slab) & (allocated > 0),
            objects=np.full(count, per_slab),
            inuse=inuse,
            first_object=np.arange(count + 1) * per_slab,
            object_state=states.reshape(-1).astype(np.uint8),
            last_cpu=last,
        )

    def _cpu_slabs(self, cpu: int, done: int, per_slab: int, freeing: bool) -> tuple[np.ndarray, np.ndarray]:
        # Objects of one CPU's slabs: allocated in order, freed in order.
        allocated = self.spec.ops if freeing else max(0, done - cpu)
        slabs = -(-allocated // per_slab)
        states = np.full(slabs * per_slab, int(ObjectState.CPU_FREE))
        states[:allocated] = int(ObjectState.ALLOCATED)
        if freeing:
            states[: min(done, allocated)] = int(ObjectState.FREE)
        states = states.reshape(slabs, per_slab)
        cpu_slab = np.arange(slabs) == slabs - 1
        if freeing:
            alive = (states != int(ObjectState.FREE)).any(axis=1) | cpu_slab
            states, cpu_slab = states[alive], cpu_slab[alive]
        return states, cpu_slab
