"""Drives one booted kernel an operation at a time, on machines of one or two nodes."""

from __future__ import annotations

from dataclasses import replace

from slubviz.hw.isa import Status
from slubviz.hw.layout import HARDWARE_COUNTERS
from slubviz.hw.machine_file import CacheGeometry
from slubviz.model.geometry import kmalloc_index
from slubviz.model.machines import load_machine
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.slub_view import cpu_slabs
from tests.oracle.counters import KERNEL_COUNTERS

PAGE_SHIFT = 12
#: Slab orders of 2.6.24, which the oracle and the scenes count with.
OLD_ORDERS = {"slub_max_order": 1, "slub_min_objects": 4}


class Driver:
    """One machine that has run nothing but what the caller asks for.

    Parameters
    ----------
    kernel : name of the kernel
    cpus, nodes : shape of the machine; CPU c is on node c * nodes // cpus
    options : options of the kernel; kernels of 2.6.25 get the slab orders of 2.6.24 unless others are given
    """

    def __init__(self, kernel: str, cpus: int = 3, nodes: int = 1, **options: int) -> None:
        machine = replace(
            load_machine("e5345_8p"),
            cpus=cpus,
            cpus_per_node=cpus // nodes,
            cpus_per_l2=1,
            l2=CacheGeometry(64 * 1024, 16),
        )
        orders = OLD_ORDERS if kernel in ("slub-2.6.25", "slub-seq") else {}
        spec = SessionSpec("x", kernel, "D", (8,), 64, 1, options={**orders, **options})
        self.session = Session(spec, machine)
        self.kernel = self.session.booted
        self.machine, self.program, self.memory = self.kernel.machine, self.kernel.program, self.kernel.memory
        self.kept = [self.memory.global_address("objects", cpu) for cpu in range(cpus)]
        self.machine.run()  # the session's own first phase
        self.run(0, "test_free", 0, cpus, 64)
        self.before = self.all_counters()

    def start(self, cpu: int, function: str, *arguments: int) -> None:
        """Let an idle CPU begin a function."""
        self.machine.align_clocks()
        self.machine.start(cpu, self.program.function(function).index, arguments)

    def run(self, cpu: int, function: str, *arguments: int) -> None:
        """Run a function to its end."""
        self.start(cpu, function, *arguments)
        assert self.machine.run() == Status.HALTED

    def alloc(self, cpu: int, size: int, node: int | None = None) -> int:
        """Address of a new object."""
        if node is None:
            self.run(cpu, "test_alloc", size, 1)
        else:
            self.run(cpu, "test_alloc_node", size, 1, node)
        return self.machine.read(self.kept[cpu])

    def free(self, cpu: int, address: int) -> None:
        """Free an object on a CPU."""
        self.machine.write(self.kept[cpu], address)
        self.run(cpu, "test_free", cpu, cpu + 1, 1)

    def all_counters(self) -> dict[str, int]:
        """Every counter of the program, since boot."""
        sums = self.machine.counters().sum(axis=0)[HARDWARE_COUNTERS:]
        return {name: int(value) for name, value in zip(self.program.counters, sums, strict=True)}

    def counters(self) -> dict[str, int]:
        """The kernel's own counters since the start."""
        now = self.all_counters()
        return {name: now[name] - self.before[name] for name in KERNEL_COUNTERS}

    # --- structures ---------------------------------------------------------------------------

    def index(self, size: int) -> int:
        """Index of the kmalloc cache that serves a size."""
        index = kmalloc_index(size, 1 << PAGE_SHIFT)
        assert index is not None
        return index

    def cpu_slab(self, cpu: int, size: int):  # type: ignore[no-untyped-def]
        """A kmem_cache_cpu; can be written."""
        return cpu_slabs(self.kernel, self.index(size))[cpu]

    def page_address(self, frame: int) -> int:
        """Address of a page frame's page structure."""
        return self.memory.global_address("mem_map") + frame * self.program.struct("page").size_bytes

    def page(self, address: int):  # type: ignore[no-untyped-def]
        """The page structure of an address in a slab of one page; can be written."""
        return self.memory.one(self.page_address(address >> PAGE_SHIFT), "page")

    def chain(self, head: int) -> list[int]:
        """Addresses of the objects on a freelist."""
        objects = []
        while head and not head & 1:
            objects.append(head)
            head = self.machine.read(head)
        return objects
