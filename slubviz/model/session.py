"""A session: one kernel on one machine, running a plan of phases.

Interface: ``boot``, ``run(micro_ops)``, ``step``, ``reset``, ``snapshot``, ``results``.  A command line and
a window drive the same object; it is used by one thread at a time.  Between phases all CPUs are idle; the
session then sets their clocks to the latest and starts the next functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState, Fault, Status
from slubviz.hw.machine import Engine, Machine
from slubviz.hw.machine_file import MachineSpec
from slubviz.model.boot import boot
from slubviz.model.booted import BootedKernel
from slubviz.model.errors import UserError
from slubviz.model.handlers import held_slab_objects
from slubviz.model.invariants import check
from slubviz.model.kernels import KernelVariant
from slubviz.model.lang import Program
from slubviz.model.plan import Phase, Setting, Start, phases_for, point_below, warm_up_ops
from slubviz.model.published import lookup
from slubviz.model.requests import SessionJob, SessionSpec, session_job
from slubviz.model.results import CellResult, error_percent
from slubviz.model.snapshot import PhaseView, ProgressSeries, Snapshot
from slubviz.model.snapshot_builder import build_snapshot
from slubviz.model.workload_table import SMALLEST_SIZE

#: Micro-ops between two points of the live plot: a tenth of the phase's operations within these limits.
FEWEST_SAMPLE_MICRO_OPS, MOST_SAMPLE_MICRO_OPS = 200, 1 << 15
#: Micro-ops between two looks at the stop flag, about a tenth of a second.
PIECE_MICRO_OPS = 4_000_000
#: A warm-up of more is given up; the longest of a sound kernel takes a third of it.
MOST_WARM_UP_MICRO_OPS = 100_000_000


@dataclass(frozen=True)
class SessionProgress:
    """What a session knows beside the state of its machine; with that, one moment of it."""

    program: Program
    code: NDArray[np.int64]  #: of the machine: the program, priced
    results: tuple[CellResult, ...]
    fault: str
    finished: bool
    phase_index: int
    counters_before: NDArray[np.int64]
    clock_before_millicycles: int
    micro_ops_before: int
    sample_operations: tuple[int, ...]
    sample_cycles: tuple[float, ...]


class SimulationFault(UserError):
    """A kernel program did something that the machine refuses; says where and what."""


class Session:
    """One run of one kernel; see the module's docstring.

    Raises
    ------
    UserError
        On construction, for unknown names and impossible sizes, operations or CPUs; one line each.
    """

    def __init__(
        self, spec: SessionSpec, machine: MachineSpec | None = None, job: SessionJob | None = None
    ) -> None:
        self.job = job or session_job(spec, machine)
        self.spec = spec
        self.machine_spec = self.job.machine
        self.variant: KernelVariant = self.job.variant
        self.phases = self.job.phases
        self.kernel: BootedKernel | None = None
        self._clear()

    def _clear(self) -> None:
        self.results: list[CellResult] = []
        self.fault = ""
        self.finished = False
        self._phase_index = -1
        self._counters_before = np.zeros(0, dtype=np.int64)
        self._clock_before = 0
        self._micro_ops_before = 0
        self._sample_operations: list[int] = []
        self._sample_cycles: list[float] = []

    # --- life ----------------------------------------------------------------------------------
    def boot(self) -> None:
        """Compile the kernel and start the first phase.  The first time ever this also compiles the engine.

        Raises
        ------
        UserError
            If the kernel file is wrong.
        """
        kernel = boot(self.job)  # a kernel file that has become unreadable leaves everything as it was
        self._clear()
        self.kernel = kernel
        if self.spec.warm_up and not self._warm_up():
            # Nobody hears Pause or Ctrl-C in here: what hangs or faults is to do so where it is seen.
            self.kernel = boot(self.job)
        self._next_phase()

    def _warm_up(self) -> bool:
        """Bring the machine into the state of one on which the size below has run.

        Its pages are in the caches and at the head of the free lists then; the per-CPU page lists are
        drained, and all counts and clocks start at zero, so that counters are those of a machine just
        booted.  False if the kernel program failed or did not come to an end.
        """
        point = point_below(self.job.workload, self.job.points[0])
        if point is None:
            return True
        cpus = self.machine_spec.cpus
        setting = Setting(warm_up_ops(self.spec.ops, cpus), cpus, self.spec.seed, self.job.parameters)
        stages = phases_for(self.spec.asked_tests, point, setting)
        for starts in (
            *(phase.starts for phase in stages),
            tuple(Start(cpu, "drain_local_pages", ()) for cpu in range(cpus)),
        ):
            if not self._run_unseen(starts):
                return False
        self.machine.zero_counts()
        return True

    def _run_unseen(self, starts: tuple[Start, ...]) -> bool:
        """Run functions to their end; False if they do not reach it."""
        machine = self.machine
        machine.align_clocks()
        machine.expect_rendezvous(len(starts))
        for start in starts:
            function = self.booted.program.function(start.function)
            machine.start(start.cpu, function.index, start.arguments)
        status = Status.MICRO_OPS
        while status == Status.MICRO_OPS and machine.micro_ops < MOST_WARM_UP_MICRO_OPS:
            status = machine.run(machine.micro_ops + PIECE_MICRO_OPS)
        return status == Status.HALTED

    def reset(self) -> None:
        """Back to the start of the run."""
        self.boot()

    @property
    def booted(self) -> BootedKernel:
        """The kernel; booted on first use."""
        if self.kernel is None:
            self.boot()
        assert self.kernel is not None
        return self.kernel

    @property
    def machine(self) -> Machine:
        """The simulated machine."""
        return self.booted.machine

    @property
    def phase(self) -> Phase | None:
        """The running phase; None before the first and after the last."""
        return self.phases[self._phase_index] if 0 <= self._phase_index < len(self.phases) else None

    @property
    def phase_index(self) -> int:
        """Number of the running phase; -1 before the first, the number of phases after the last."""
        return self._phase_index

    def run(
        self,
        micro_ops: int,
        *,
        observe: bool = True,
        stop_at_phase_end: bool = False,
        engine: Engine | None = None,
    ) -> Status:
        """Run up to ``micro_ops`` micro-ops further, across phases.

        Parameters
        ----------
        micro_ops : at most so many
        observe : collect the points of the live plot
        stop_at_phase_end : stop when a phase has ended and before the first micro-op of the next one
        engine : see ``Machine.run``

        Returns
        -------
        Status
            MICRO_OPS, HALTED when the plan is finished, BREAKPOINT or FAULT.  A stop at the end of a phase
            that is not the last one is MICRO_OPS, though fewer than asked for were run.
        """
        machine = self.machine
        target = machine.micro_ops + micro_ops
        while not self.finished and not self.fault:
            if machine.micro_ops >= target:
                return Status.MICRO_OPS
            limit, phase_index = target, self._phase_index
            if observe:
                limit = min(target, self._next_sample())
            status = self._run_machine(limit, engine)
            if observe:
                self._sample_if_due()
            if status == Status.BREAKPOINT:
                return status
            self._settle(status, observe)
            if stop_at_phase_end and self._phase_index != phase_index and not (self.finished or self.fault):
                return Status.MICRO_OPS
        return Status.FAULT if self.fault else Status.HALTED

    def _run_machine(self, limit: int, engine: Engine | None) -> Status:
        """``machine.run``; when the computer has no memory for the simulated one, a fault like others."""
        try:
            return self.machine.run(limit, engine=engine)
        except MemoryError:
            self.fault = "this computer has no memory left for the run: lower --ops, --cpus or --size"
            return Status.MICRO_OPS

    def run_to_end(
        self,
        stop: threading.Event | None = None,
        advanced: Callable[[Session, int, int], None] | None = None,
    ) -> None:
        """Run everything without observing, in pieces, so that Ctrl-C and ``stop`` are heard.

        Parameters
        ----------
        stop : end early when it is set
        advanced : called after each piece with this session, the new cells and the new micro-ops

        Raises
        ------
        SimulationFault
            If the kernel program failed.
        """
        while not self.finished and not (stop and stop.is_set()):
            cells, micro_ops = len(self.results), self.machine.micro_ops
            self.run(PIECE_MICRO_OPS, observe=False)
            if self.fault:
                raise SimulationFault(self.fault)
            if advanced:
                advanced(self, len(self.results) - cells, self.machine.micro_ops - micro_ops)

    def progress(self) -> SessionProgress:
        """What belongs to this moment beside the machine's state; see ``resume``."""
        return SessionProgress(
            self.booted.program,
            self.machine.code,
            tuple(self.results),
            self.fault,
            self.finished,
            self._phase_index,
            self._counters_before,  # never written to
            self._clock_before,
            self._micro_ops_before,
            tuple(self._sample_operations),
            tuple(self._sample_cycles),
        )

    def resume(self, progress: SessionProgress) -> None:
        """Be at the moment of ``progress``; the caller sees to the state of the machine."""
        self.use_program(progress.program, progress.code)
        self.results = list(progress.results)
        self.fault = progress.fault
        self.finished = progress.finished
        self._phase_index = progress.phase_index
        self._counters_before = progress.counters_before
        self._clock_before = progress.clock_before_millicycles
        self._micro_ops_before = progress.micro_ops_before
        self._sample_operations = list(progress.sample_operations)
        self._sample_cycles = list(progress.sample_cycles)

    def use_program(self, program: Program, code: NDArray[np.int64]) -> None:
        """Put a program with the same layout, and its priced micro-ops, in the place of the running one."""
        kernel = self.booted
        kernel.program = program
        kernel.memory.program = program
        kernel.machine.code = code

    def step(self) -> None:
        """Execute one micro-op of the CPU that is next."""
        if self.finished or self.fault:
            return
        status = self.machine.step()
        self._sample_if_due()
        self._settle(status, True)

    def _settle(self, status: Status, observe: bool) -> None:
        if status == Status.HALTED:
            if observe:
                self._sample()
            self._finish_phase()
            if self.spec.check:
                self._check_invariants()
            if not self.fault:
                self._next_phase()
        elif status == Status.FAULT:
            self.fault = self._fault_text()
        elif status == Status.DEADLOCK:
            self.fault = self._deadlock_text()

    def _check_invariants(self) -> None:
        phase = self.phase
        assert phase is not None
        from_slabs = self.job.family.cache_index(phase.size_bytes or 1, self.machine_spec) is not None
        kept = (phase.kept_after if from_slabs else 0) + held_slab_objects(self.booted)
        problems = check(self.booted, expected_allocated=kept)
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            self.fault = (
                f"{self.variant.name}: after the {phase.operation} phase of test {phase.test} at "
                f"{phase.size_bytes} bytes an invariant is broken: {problems[0]}{more}"
            )

    # --- phases -----------------------------------------------------------------------------------
    def _next_phase(self) -> None:
        self._phase_index += 1
        phase = self.phase
        if phase is None:
            self.finished = True
            return
        if phase.measured:  # the curve of the last measurement stays while set-up and clean-up run
            self._sample_operations, self._sample_cycles = [], []
        machine = self.machine
        self._clock_before = machine.align_clocks()
        self._counters_before = machine.counters().copy()
        self._micro_ops_before = machine.micro_ops
        machine.expect_rendezvous(len(phase.starts))
        for start in phase.starts:
            machine.start(start.cpu, self.booted.program.function(start.function).index, start.arguments)

    def _finish_phase(self) -> None:
        phase = self.phase
        if phase is None or not phase.measured:
            return
        per_cpu = np.array([self._measured_cycles(start.cpu) for start in phase.starts]) / phase.divisor
        mean = float(per_cpu.mean())
        published = self._published(phase)
        self.results.append(
            CellResult(
                machine=self.machine_spec.name,
                kernel=self.variant.name,
                test=phase.test,
                operation=phase.operation,
                size_bytes=phase.size_bytes,
                objects=phase.objects,
                seed=self.spec.seed,
                cpus=self.machine_spec.cpus,
                ops=phase.ops,
                cycles_per_op=mean,
                cycles_per_op_min_cpu=float(per_cpu.min()),
                cycles_per_op_max_cpu=float(per_cpu.max()),
                published_low=published[0] if published else None,
                published_high=published[1] if published else None,
                error_percent=error_percent(mean, published),
                counters=self.phase_counters(),
                micro_ops=self.machine.micro_ops - self._micro_ops_before,
                trace_hash=f"{self.machine.trace_hash & 0xFFFFFFFFFFFFFFFF:016x}",
                simulated_seconds=(self.machine.clock_millicycles - self._clock_before)
                / L.MILLI
                / self.machine_spec.clock_hz,
            )
        )

    def _measured_cycles(self, cpu: int) -> int:
        memory = self.booted.memory
        record = memory.one(memory.global_address("results", cpu), "result")
        return int(record["stop"]) - int(record["start"])

    def counter_names(self) -> list[str]:
        """Names in the order of the columns of ``machine.counters()``; unused hardware slots are empty."""
        hardware = [L.HARDWARE_COUNTER_NAMES.get(i, "") for i in range(L.HARDWARE_COUNTERS)]
        return [*hardware, *self.booted.program.counters]

    def phase_counters(self) -> dict[str, int]:
        """What each counter gained in this phase, summed over the CPUs; the kernel's first."""
        gained = (self.machine.counters() - self._counters_before).sum(axis=0)
        pairs = [(name, int(value)) for name, value in zip(self.counter_names(), gained, strict=True) if name]
        own = set(self.booted.program.counters)
        return dict(sorted(pairs, key=lambda pair: pair[0] not in own))  # stable: else in their order

    # --- looking ---------------------------------------------------------------------------------
    def counters_before(self) -> np.ndarray:
        """All counters as they were when this phase began, shape (CPUs, counters)."""
        return self._counters_before

    def operations_done(self) -> np.ndarray:
        """Operations of this phase per CPU, shape (CPUs,)."""
        column = L.HARDWARE_COUNTERS + self.booted.program.counters.index("OPERATIONS")
        done: np.ndarray = self.machine.counters()[:, column] - self._counters_before[:, column]
        return done

    def _sample_interval(self) -> int:
        # Of the phase alone, so that the points do not depend on how the run is cut into pieces.
        phase = self.phase
        wanted = phase.operations_total // 10 if phase and phase.measured else MOST_SAMPLE_MICRO_OPS
        return min(max(wanted, FEWEST_SAMPLE_MICRO_OPS), MOST_SAMPLE_MICRO_OPS)

    def _next_sample(self) -> int:
        done = self.machine.micro_ops - self._micro_ops_before
        interval = self._sample_interval()
        return self._micro_ops_before + (done // interval + 1) * interval

    def _sample_if_due(self) -> None:
        if (self.machine.micro_ops - self._micro_ops_before) % self._sample_interval() == 0:
            self._sample()

    def _sample(self) -> None:
        phase = self.phase
        if phase is None or not phase.measured:
            return
        done = self.operations_done()
        busy = [start.cpu for start in phase.starts if done[start.cpu] > 0]
        if not busy:
            return
        blocks = self.machine.cpu_blocks()
        elapsed = (blocks[busy, L.C_CLOCK] - self._clock_before) / L.MILLI
        # A cell of test F counts all frees against the operations of one CPU.
        scale = phase.operations_per_cpu / phase.divisor
        point = (int(done.sum()), float((elapsed / done[busy]).mean()) * scale)
        last = (self._sample_operations[-1:], self._sample_cycles[-1:])
        if last == ([point[0]], [point[1]]):
            return  # a phase that ends where a sample is due
        self._sample_operations.append(point[0])
        self._sample_cycles.append(point[1])

    def _published(self, phase: Phase) -> tuple[float, float] | None:
        if not self.job.comparable:
            return None
        return lookup(
            self.machine_spec.name,
            phase.test,
            self.variant.name,
            phase.size_bytes,
            operation=phase.operation,
            objects=phase.objects,
        )

    def phase_view(self) -> PhaseView | None:
        """The running phase as a view shows it."""
        phase = self.phase
        if phase is None:
            return None
        published = self._published(phase)
        return PhaseView(
            self._phase_index,
            len(self.phases),
            phase.test,
            phase.operation,
            phase.size_bytes,
            phase.measured,
            phase.operations_total,
            published[0] if published and phase.measured else None,
            published[1] if published and phase.measured else None,
            phase.ops,
            phase.objects,
        )

    def progress_series(self) -> ProgressSeries:
        """Points of the live plot so far."""
        return ProgressSeries(
            np.array(self._sample_operations, dtype=np.int64), np.array(self._sample_cycles, dtype=np.float64)
        )

    def shown_size(self) -> int:
        """The size whose cache a snapshot shows: the running or last phase's; 8 if it has no objects."""
        return self.phases[min(max(self._phase_index, 0), len(self.phases) - 1)].size_bytes or SMALLEST_SIZE

    def shown_cache(self) -> int | None:
        """Index of the shown kmalloc cache, None for the page allocator's sizes."""
        return self.job.family.cache_index(self.shown_size(), self.machine_spec)

    def snapshot(self) -> Snapshot:
        """The session as it is now."""
        return build_snapshot(self)

    def source_text(self, file: str) -> str:
        """Text of a kernel-language file of the program."""
        return self.booted.program.sources[file]

    def _place(self, cpu: int, pc: int) -> str:
        program = self.booted.program
        if not 0 <= pc < program.micro_ops:
            return f"CPU {cpu}"
        span = program.span(pc)
        return f"CPU {cpu} at {span.file}:{span.line}:{span.column} in {program.inline_stack(pc)[-1][0].name}"

    def _fault_text(self) -> str:
        state = self.machine.state
        fault = Fault(int(state[L.H_FAULT]))
        pc, address = int(state[L.H_FAULT_PC]), int(state[L.H_FAULT_ADDRESS])
        reason = {
            Fault.NULL_POINTER: f"reads or writes through a NULL pointer (address {address:#x})",
            Fault.BAD_ADDRESS: f"uses address {address:#x}, where there is no memory",
            Fault.MISALIGNED: f"uses address {address:#x}, which is not aligned (a marked end pointer?)",
            Fault.GRANULE: f"touches a second word of an object at {address:#x}; objects keep one word",
            Fault.STACK_OVERFLOW: "overflows its stack",
            Fault.DIVISION_BY_ZERO: "divides by zero",
            Fault.UNLOCK_FREE: f"unlocks a lock that is not held (address {address:#x})",
            Fault.SELF_DEADLOCK: f"waits for a lock that it holds itself (address {address:#x})",
        }.get(fault, "executes an unknown micro-op")
        if fault == Fault.BUG:
            reason = f"stops: {self.booted.program.bug_messages[address]}"
        return f"{self._place(int(state[L.H_FAULT_CPU]), pc)}: {reason}"

    def _deadlock_text(self) -> str:
        waiting = [
            self._place(cpu, int(block[L.C_PC]))
            for cpu, block in enumerate(self.machine.cpu_blocks())
            if block[L.C_STATE] in (CpuState.WAITING_LOCK, CpuState.WAITING_RENDEZVOUS)
        ]
        shown = "; ".join(waiting[:4]) + (" and others" if len(waiting) > 4 else "")
        return f"deadlock: nobody can run. Waiting: {shown}"
