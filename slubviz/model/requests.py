"""What can be asked for, and the checks that need no engine.

``slubviz list``, the window's choices and every refusal come from here, so none of them has to wait for
numba. A ``SessionJob`` is a checked ``SessionSpec``: the machine, the kernel with its options split, and
how much memory the run takes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.errors import RequestError, UserError, unknown_name
from slubviz.model.families import Family, family_of
from slubviz.model.geometry import LARGEST_ORDER, MAX_ORDER, OrderOptions, page_order
from slubviz.model.handlers import check_handlers, handler_sources
from slubviz.model.kernels import KERNELS, KernelVariant, load_kernel
from slubviz.model.lang import KernelLanguageError, Program, SourceFile, Target, compile_program
from slubviz.model.machines import load_machine, machine_files
from slubviz.model.plan import (
    TESTS,
    WORKLOADS,
    Phase,
    Setting,
    Sweep,
    Workload,
    boot_groups,
    check_objects,
    parameters_of,
    phases_for,
    points_for,
)
from slubviz.model.results import RunRequest

BLOCK_PAGES = 1 << (MAX_ORDER - 1)
#: Largest memory that is simulated, in pages.
MOST_PAGES = 1 << 22
#: Pages beyond what the objects take: lists of every CPU, slabs that are partly used.
SPARE_PAGES_PER_CPU = 256
#: Largest number of object pointers that a workload may keep.
MOST_KEPT_OBJECTS = 1 << 28
#: Boot parameters of the slab geometry; options too, but not of the kernel program.
ORDER_OPTIONS = ("slub_min_order", "slub_max_order", "slub_min_objects")
_COMPILING = threading.Lock()
_DEFINITION = re.compile(r"^def +(\w+)", re.MULTILINE)


def known_machines() -> Mapping[str, str]:
    """Name and one-line description of each machine."""
    return {name: load_machine(name).title for name in machine_files()}


def known_kernels() -> Mapping[str, str]:
    """Name and one-line description of each kernel."""
    return {kernel.name: kernel.description for kernel in KERNELS.values()}


def known_tests() -> Mapping[str, str]:
    """Name and one-line description of each test."""
    return dict(TESTS)


def default_sizes(machine: str, test: str = "A") -> tuple[int, ...]:
    """The sizes in bytes that stand for "all" in a size-swept test: powers of two to one page or four."""
    return WORKLOADS[test].points(load_machine(machine).page_size_bytes)


def runnable_tests(request: RunRequest) -> tuple[str, ...]:
    """The tests that all kernels of a request and its machine can run.

    Raises
    ------
    UserError
        For unknown machines and kernels.
    """
    cpus = load_machine(request.machine, request.cpus).cpus
    variants = [load_kernel(kernel) for kernel in request.kernels]
    return tuple(
        name
        for name, workload in WORKLOADS.items()
        if cpus >= workload.cpus
        and not any(missing_functions(variant, workload.needs) for variant in variants)
    )


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
    objects: tuple[int, ...] = ()  #: objects per bulk call; empty means the published ones
    #: Content of a machine file and of an allocator file in the place of what the names stand for.
    machine_text: str = field(default="", repr=False)
    kernel_text: str = field(default="", repr=False)
    handlers: bool = False  #: link the interrupt handlers of ``workloads/handlers.py``
    handler_files: tuple[str, ...] = ()  #: paths of further handler files
    #: The same by name and content.
    handler_texts: tuple[tuple[str, str], ...] = field(default=(), repr=False)

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
    parameters: Mapping[str, int]  #: of the workload
    points: tuple[int, ...]  #: sizes in bytes, or objects per bulk call
    pages_per_node: int  #: that the objects take at the worst
    phases: tuple[Phase, ...]
    programs: tuple[SourceFile, ...] = ()  #: linked behind everything else
    edited: Mapping[str, str] = field(default_factory=dict)  #: file of the kernel -> text in its place

    @property
    def workload(self) -> Workload:
        """The first of the asked tests; the others share its programs."""
        return WORKLOADS[self.spec.asked_tests[0]]

    @property
    def setting(self) -> Setting:
        """What the phases depend on beside their point."""
        return Setting(self.spec.ops, self.machine.cpus, self.spec.seed, self.parameters)

    @property
    def family(self) -> Family:
        """The kind of allocator."""
        return family_of(self.variant)

    def kernel_options(self) -> dict[str, int]:
        """Options of the kernel program: the variant's, as far as the machine has them, and the asked ones.

        Patch 08 depends on the machine: it is left out where a local compare-and-exchange is not fast.
        """
        return {**self.variant.options_on(self.machine.fast_cmpxchg_local), **self.options}

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
    used = machine or load_machine(spec.machine, spec.cpus, spec.machine_text)
    variant = load_kernel(spec.kernel, spec.kernel_text)
    _check_tests(spec, used)
    workload = WORKLOADS[spec.asked_tests[0]]
    orders, given = _split_options(spec, used, variant)
    parameters = parameters_of(workload, given)
    options = {name: value for name, value in given.items() if name not in parameters}
    require_functions(variant, workload)
    points = points_for(workload, used.page_size_bytes, spec.sizes, spec.objects)
    if workload.sweep == Sweep.SIZE:
        check_sizes(used, points)
    elif workload.sweep == Sweep.OBJECTS:
        check_objects(points)
    if spec.ops < 1:
        raise RequestError(f"{spec.ops} operations are asked for; give at least 1")
    if spec.ops * used.cpus > MOST_KEPT_OBJECTS:
        raise RequestError(
            f"{spec.ops:,} operations on {used.cpus} CPUs are more than fit; "
            f"at most {MOST_KEPT_OBJECTS // used.cpus:,} are possible"
        )
    setting = Setting(spec.ops, used.cpus, spec.seed, parameters)
    pages = _pages_per_node(workload, points, setting, used, family_of(variant), orders)
    memory_frames(used, pages)
    phases = workload.once(setting)
    phases += [phase for point in points for phase in phases_for(spec.asked_tests, point, setting)]
    return SessionJob(spec, used, variant, orders, options, parameters, points, pages, tuple(phases))


def _check_tests(spec: SessionSpec, machine: MachineSpec) -> None:
    for test in spec.asked_tests:
        if test not in TESTS:
            raise unknown_name("test", test, TESTS)
        if machine.cpus < WORKLOADS[test].cpus:
            raise RequestError(
                f"test {test} needs at least {WORKLOADS[test].cpus} CPUs; {machine.name} has 1 here"
            )
    if len(boot_groups(spec.asked_tests)) != 1:
        raise RequestError(f"tests {', '.join(spec.asked_tests)} do not share a boot; run them one by one")


def missing_functions(variant: KernelVariant, names: Sequence[str]) -> list[str]:
    """Those of ``names`` that a kernel's files do not define."""
    if not names:
        return []
    defined: set[str] = set()
    for source in variant.sources():
        defined.update(_DEFINITION.findall(source.text))
    return [name for name in names if name not in defined]


def require_functions(variant: KernelVariant, workload: Workload) -> None:
    """Raise RequestError, naming the kernels that have them, if a kernel lacks what a workload calls."""
    missing = missing_functions(variant, workload.needs)
    if not missing:
        return
    able = [name for name, known in KERNELS.items() if not missing_functions(known, workload.needs)]
    kernels = f"kernels that have them: {', '.join(able)}" if able else "no known kernel has them"
    raise RequestError(
        f"test {workload.name} needs {', '.join(missing)}, which kernel {variant.name} lacks; {kernels}"
    )


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


def _split_options(
    spec: SessionSpec, machine: MachineSpec, variant: KernelVariant
) -> tuple[OrderOptions, dict[str, int]]:
    """Boot parameters of the slab geometry, and the options of the kernel program."""
    default = family_of(variant).default_orders(machine)
    given = {**variant.orders, **spec.options}
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


def _pages_per_node(
    workload: Workload,
    points: Sequence[int],
    setting: Setting,
    machine: MachineSpec,
    family: Family,
    orders: OrderOptions,
) -> int:
    demands = [workload.demand(point, setting) for point in points]
    most = max(family.pages_for(d.size_bytes, d.objects, machine, orders) * d.cpus for d in demands)
    largest = max(demand.size_bytes for demand in demands)
    largest_block = max(1 << page_order(largest, machine.page_size_bytes), 2)
    return most + machine.cpus * (SPARE_PAGES_PER_CPU + 4 * largest_block) // machine.nodes


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
    usable_share = 1 - machine.fragmented_share  # of fragmented blocks only order 0 can be had
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
        "CONFIG_SMP": int(machine.smp_kernel),
        "CACHE_LINE_BYTES": machine.line_bytes,
        "WORD_BYTES": machine.word_bytes,
        "NR_PAGE_FRAMES": top,
        "OBJECTS_PER_CPU": job.spec.ops,
        **job.workload.constants,
        **job.parameters,
    }
    target = Target(
        machine.word_bytes,
        constants,
        static_base=top * machine.page_size_bytes,
        line_bytes=machine.line_bytes,
        # on whole pages, because the node of memory is a page's
        element_align_bytes=machine.page_size_bytes if machine.nodes > 1 else 0,
    )
    spec = job.spec
    sources = [
        SourceFile(source.name, job.edited.get(source.name, source.text))
        for source in variant.sources(job.workload.files)
    ]
    names = [source.name for source in sources]
    try:
        # One at a time: CPython 3.11 loses count of its recursion when two threads build syntax trees.
        with _COMPILING:
            handlers = handler_sources(spec.handlers, spec.handler_files, spec.handler_texts, names)
            files = [*sources, *handlers, *job.programs]
            program = compile_program(files, target, job.kernel_options())
    except KernelLanguageError as error:
        if error.line == 0:
            raise _wrong_option(job, error) from error
        raise
    job.family.check_contract(variant.name, program, machine)
    check_handlers(program, handlers)
    return program


def _wrong_option(job: SessionJob, error: KernelLanguageError) -> UserError:
    """The complaint about an option, with the boot parameters among the known ones."""
    listed = str(error).rsplit("known options: ", 1)
    if len(listed) < 2:
        return RequestError(f"kernel {job.variant.name}: {error}")
    known = [*listed[1].rstrip(")").split(", "), *ORDER_OPTIONS, *job.parameters]
    wrong = next((name for name in job.options if name not in known), "")
    return unknown_name(f"option of kernel {job.variant.name}:", wrong, known)


def session_specs(request: RunRequest) -> list[SessionSpec]:
    """The sessions that a run consists of: one boot each, all points or (with ``fresh_boot``) one.

    Raises
    ------
    UserError
        For an unknown machine or test.
    """
    page_size = load_machine(request.machine).page_size_bytes
    specs = []
    for kernel in request.kernels:
        for tests in boot_groups(_known(request.tests)):
            workload = WORKLOADS[tests[0]]
            points = points_for(workload, page_size, request.sizes, request.objects)
            steps = [(point,) for point in points] if request.fresh_boot else [points]
            specs += [
                SessionSpec(
                    machine=request.machine,
                    kernel=kernel,
                    test=tests[0],
                    sizes=step if workload.sweep == Sweep.SIZE else (),
                    ops=request.ops,
                    seed=seed,
                    cpus=request.cpus,
                    options=_options_for(workload, request),
                    warm_up=not request.fresh_boot,
                    check=request.check,
                    tests=tests,
                    objects=step if workload.sweep == Sweep.OBJECTS else (),
                )
                for step in steps
                for seed in request.asked_seeds
            ]
    return specs


def _known(tests: Sequence[str]) -> Sequence[str]:
    for test in tests:
        if test not in WORKLOADS:
            raise unknown_name("test", test, WORKLOADS)
    return tests


def _options_for(workload: Workload, request: RunRequest) -> dict[str, int]:
    """The options without those of other asked tests."""
    own = {parameter.name for parameter in workload.parameters}
    all_parameters = {parameter.name for test in request.tests for parameter in WORKLOADS[test].parameters}
    return {
        name: value for name, value in request.options.items() if name in own or name not in all_parameters
    }


def validate(request: RunRequest) -> None:
    """Refuse what cannot run, before anything runs; kernel files are compiled.

    Raises
    ------
    UserError
        One line: what is wrong, where, what to do.
    """
    _check_points(request)
    compiled: set[tuple[str, tuple[str, ...]]] = set()
    for spec in session_specs(replace(request, seeds=request.asked_seeds[:1])):
        job = session_job(spec)
        program = (spec.kernel, job.workload.files)
        if program not in compiled:
            compile_kernel(job)
            compiled.add(program)


def _check_points(request: RunRequest) -> None:
    """Refuse points that no asked test has a use for."""
    sweeps = {WORKLOADS[test].sweep for test in _known(request.tests)}
    for option, given, sweep in (
        ("--size", request.sizes, Sweep.SIZE),
        ("--objects", request.objects, Sweep.OBJECTS),
    ):
        if given is not None and sweep not in sweeps:
            able = [name for name, workload in WORKLOADS.items() if workload.sweep == sweep]
            raise RequestError(
                f"{option} has no meaning for test {', '.join(request.tests)}; "
                f"tests that take it: {', '.join(able)}"
            )
