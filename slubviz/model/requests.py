"""What can be asked for, and the checks that need no engine.

``slubviz list``, the window's choices and every refusal come from here, so none of them has to wait for
numba. A ``SessionJob`` is a checked ``SessionSpec``: the machine, the kernel with its options split, and
how much memory the run takes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.errors import RequestError, UserError, unknown_name
from slubviz.model.families import Family, family_of
from slubviz.model.geometry import LARGEST_ORDER, MAX_ORDER, OrderOptions, page_order
from slubviz.model.kernels import KERNELS, KernelVariant, load_kernel
from slubviz.model.lang import KernelLanguageError, Program, Target, compile_program
from slubviz.model.machines import load_machine, machine_files
from slubviz.model.plan import NEEDS_OTHER_CPUS, TESTS, Phase, allocating_cpus, boot_groups, phases_for
from slubviz.model.results import RunRequest

BLOCK_PAGES = 1 << (MAX_ORDER - 1)
#: Share of the blocks of 1024 pages that are fragmented at boot; half of their groups of 4 pages are in
#: use.
FRAGMENTED_SHARE = 1 / 16
#: Largest memory that is simulated, in pages.
MOST_PAGES = 1 << 22
#: Pages beyond what the objects take: lists of every CPU, slabs that are partly used.
SPARE_PAGES_PER_CPU = 256
#: Largest number of object pointers that a workload may keep.
MOST_KEPT_OBJECTS = 1 << 28
#: Boot parameters of the slab geometry; options too, but not of the kernel program.
ORDER_OPTIONS = ("slub_min_order", "slub_max_order", "slub_min_objects")
_COMPILING = threading.Lock()


def known_machines() -> Mapping[str, str]:
    """Name and one-line description of each machine."""
    return {name: load_machine(name).title for name in machine_files()}


def known_kernels() -> Mapping[str, str]:
    """Name and one-line description of each kernel."""
    return {kernel.name: kernel.title for kernel in KERNELS.values()}


def known_tests() -> Mapping[str, str]:
    """Name and one-line description of each test."""
    return dict(TESTS)


def default_sizes(machine: str) -> tuple[int, ...]:
    """The sizes in bytes that stand for "all": powers of two from 8 to one page."""
    page = load_machine(machine).page_size_bytes
    return tuple(1 << bit for bit in range(3, page.bit_length()))


@dataclass(frozen=True)
class SessionSpec:
    """What to run in a session: the tests must share a boot (A and B, or one other)."""

    machine: str
    kernel: str
    test: str
    sizes: tuple[int, ...]
    ops: int
    seed: int
    cpus: int | None = None
    options: Mapping[str, int] = field(default_factory=dict)
    warm_up: bool = False  #: before the first size run the one below it, so that caches and memory are in use
    check: bool = False  #: check every invariant of the allocator at the end of each phase
    tests: tuple[str, ...] = ()  #: all tests of the boot to measure; empty means just ``test``

    @property
    def asked_tests(self) -> tuple[str, ...]:
        """Tests to measure."""
        return self.tests or (self.test,)


@dataclass(frozen=True)
class SessionJob:
    """A session's request, checked and worked out."""

    spec: SessionSpec
    machine: MachineSpec
    variant: KernelVariant
    orders: OrderOptions
    options: Mapping[str, int]  #: of the kernel program
    pages_per_node: int  #: that the objects take at the worst
    phases: tuple[Phase, ...]

    @property
    def family(self) -> Family:
        """The kind of allocator."""
        return family_of(self.variant)

    def kernel_options(self) -> dict[str, int]:
        """Options of the kernel program: the variant's, as far as the machine has them, and the asked ones.

        Patch 08 depends on the machine: it is left out where a local compare-and-exchange is not fast.
        """
        options = dict(self.variant.options)
        if not self.machine.fast_cmpxchg_local:
            options.pop("PATCH_08", None)
        return {**options, **self.options}

    @property
    def comparable(self) -> bool:
        """Whether published values are for this: the machine as it is and a known kernel as it is."""
        whole_machine = self.machine.cpus == self.machine.file_cpus
        return whole_machine and self.variant.user_file is None and not self.spec.options


def session_job(spec: SessionSpec, machine: MachineSpec | None = None) -> SessionJob:
    """Check a request.

    Parameters
    ----------
    spec : the request
    machine : used in the place of the one that ``spec`` names

    Raises
    ------
    UserError
        For unknown names and impossible sizes, operations or CPUs; one line each.
    """
    used = machine or load_machine(spec.machine, spec.cpus)
    variant = load_kernel(spec.kernel)
    orders, options = _split_options(spec, used)
    _check_tests(spec, used)
    check_sizes(used, spec.sizes)
    if spec.ops < 1:
        raise RequestError(f"{spec.ops} operations are asked for; give at least 1")
    if spec.ops * used.cpus > MOST_KEPT_OBJECTS:
        raise RequestError(
            f"{spec.ops:,} operations on {used.cpus} CPUs are more than fit; "
            f"at most {MOST_KEPT_OBJECTS // used.cpus:,} are possible"
        )
    pages = _pages_per_node(spec, used, family_of(variant), orders)
    memory_frames(used, pages)
    phases = [p for size in spec.sizes for p in phases_for(spec.asked_tests, size, spec.ops, used.cpus)]
    return SessionJob(spec, used, variant, orders, options, pages, tuple(phases))


def _check_tests(spec: SessionSpec, machine: MachineSpec) -> None:
    for test in spec.asked_tests:
        if test not in TESTS:
            raise unknown_name("test", test, TESTS)
        if test in NEEDS_OTHER_CPUS and machine.cpus < 2:
            raise RequestError(f"test {test} needs at least 2 CPUs; {machine.name} has 1 here")
    if len(boot_groups(spec.asked_tests)) != 1:
        raise RequestError(f"tests {', '.join(spec.asked_tests)} do not share a boot; run them one by one")


def check_sizes(machine: MachineSpec, sizes: tuple[int, ...]) -> None:
    """Raise RequestError for a size that kmalloc of this machine cannot give."""
    if not sizes:
        raise RequestError("no size is given; give at least one")
    largest = machine.page_size_bytes << LARGEST_ORDER
    for size in sizes:
        if not 1 <= size <= largest:
            raise RequestError(
                f"size {size} is out of range: kmalloc on {machine.name} takes 1 to {largest} bytes"
            )


def _split_options(spec: SessionSpec, machine: MachineSpec) -> tuple[OrderOptions, dict[str, int]]:
    """Boot parameters of the slab geometry, and the options of the kernel program."""
    default = OrderOptions.default(machine.page_size_bytes)
    given = dict(spec.options)
    low = given.pop("slub_min_order", default.min_order)
    high = given.pop("slub_max_order", default.max_order)
    objects = given.pop("slub_min_objects", default.min_objects)
    if not 0 <= low <= high <= LARGEST_ORDER:
        raise RequestError(
            f"slub_min_order={low} and slub_max_order={high} must satisfy 0 <= min <= max <= {LARGEST_ORDER}"
        )
    if objects < 1:
        raise RequestError(f"slub_min_objects={objects} must be at least 1")
    return OrderOptions(low, high, objects), given


def _pages_per_node(spec: SessionSpec, machine: MachineSpec, family: Family, orders: OrderOptions) -> int:
    page = machine.page_size_bytes
    most = max(family.pages_for(size, spec.ops, machine, orders) for size in spec.sizes)
    largest_block = max(1 << page_order(max(spec.sizes), page), 2)
    spare = machine.cpus * (SPARE_PAGES_PER_CPU + 4 * largest_block) // machine.nodes
    return most * allocating_cpus(spec.asked_tests, machine.cpus) + spare


def memory_frames(machine: MachineSpec, pages_per_node: int) -> tuple[int, NDArray[np.int64]]:
    """Page frames for a run that needs ``pages_per_node`` pages on each node at the worst.

    Returns
    -------
    (number of page frames, node of each frame); whole blocks of 1024 pages on every node.

    Raises
    ------
    RequestError
        If that is more than is simulated.
    """
    usable_share = 1 - FRAGMENTED_SHARE / 2
    blocks = max(4, int(pages_per_node / usable_share / BLOCK_PAGES) + 2)
    frames = blocks * BLOCK_PAGES * machine.nodes
    if frames > MOST_PAGES:
        gigabytes = frames * machine.page_size_bytes / (1 << 30)
        raise RequestError(
            f"this run needs {gigabytes:,.1f} GB of simulated memory; at most {MOST_PAGES:,} pages "
            "are simulated: lower --ops, --size or --cpus"
        )
    return frames, np.repeat(np.arange(machine.nodes, dtype=np.int64), blocks * BLOCK_PAGES)


def compile_kernel(job: SessionJob) -> Program:
    """Compile a job's kernel and workloads for its machine.

    Raises
    ------
    UserError
        With file, line, column and what to write instead; or what the file lacks.
    """
    machine, variant = job.machine, job.variant
    frames, _ = memory_frames(machine, job.pages_per_node)
    top = BLOCK_PAGES + frames
    constants = {
        "PAGE_SIZE": machine.page_size_bytes,
        "PAGE_SHIFT": machine.page_size_bytes.bit_length() - 1,
        "NR_CPUS": machine.cpus,
        "NR_NODES": machine.nodes,
        "CACHE_LINE_BYTES": machine.line_bytes,
        "WORD_BYTES": machine.word_bytes,
        "NR_PAGE_FRAMES": top,
        "OBJECTS_PER_CPU": job.spec.ops,
    }
    target = Target(
        machine.word_bytes,
        constants,
        static_base=top * machine.page_size_bytes,
        line_bytes=machine.line_bytes,
        # on whole pages, because the node of memory is a page's
        element_align_bytes=machine.page_size_bytes if machine.nodes > 1 else 0,
    )
    try:
        # One at a time: CPython 3.11 loses count of its recursion when two threads build syntax trees.
        with _COMPILING:
            program = compile_program(variant.sources(), target, job.kernel_options())
    except KernelLanguageError as error:
        if error.line == 0:
            raise _wrong_option(job, error) from error
        raise
    job.family.check_contract(variant.name, program, machine)
    return program


def _wrong_option(job: SessionJob, error: KernelLanguageError) -> UserError:
    """The complaint about an option, with the boot parameters among the known ones."""
    listed = str(error).rsplit("known options: ", 1)
    if len(listed) < 2:
        return RequestError(f"kernel {job.variant.name}: {error}")
    known = [*listed[1].rstrip(")").split(", "), *ORDER_OPTIONS]
    wrong = next((name for name in job.options if name not in known), "")
    return unknown_name(f"option of kernel {job.variant.name}:", wrong, known)


def session_specs(request: RunRequest) -> list[SessionSpec]:
    """The sessions that a run consists of: one boot each, all sizes or (with ``fresh_boot``) one."""
    sizes = request.sizes if request.sizes is not None else default_sizes(request.machine)
    steps = [(size,) for size in sizes] if request.fresh_boot else [tuple(sizes)]
    return [
        SessionSpec(
            machine=request.machine,
            kernel=kernel,
            test=tests[0],
            sizes=step,
            ops=request.ops,
            seed=request.seed,
            cpus=request.cpus,
            options=request.options,
            warm_up=not request.fresh_boot,
            check=request.check,
            tests=tests,
        )
        for kernel in request.kernels
        for tests in boot_groups(request.tests)
        for step in steps
    ]


def validate(request: RunRequest) -> None:
    """Refuse what cannot run, before anything runs; kernel files are compiled.

    Raises
    ------
    UserError
        One line: what is wrong, where, what to do.
    """
    compiled: set[str] = set()
    for spec in session_specs(request):
        job = session_job(spec)
        if spec.kernel not in compiled:
            compile_kernel(job)
            compiled.add(spec.kernel)
