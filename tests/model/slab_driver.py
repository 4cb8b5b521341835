"""Drives one booted SLAB an operation at a time, and reads its structures for comparison with the oracle."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slubviz.hw.isa import Status
from slubviz.hw.layout import HARDWARE_COUNTERS
from slubviz.hw.machine_file import CacheGeometry, MachineSpec
from slubviz.model.boot import boot
from slubviz.model.families.slab_geometry import Shape, malloc_sizes
from slubviz.model.families.slab_start import LISTS
from slubviz.model.machines import load_machine
from slubviz.model.requests import SessionSpec, session_job
from slubviz.model.slab_view import CacheView, list3_addresses, read_cache

#: What both the program and the oracle count.
COUNTERS = (
    "ALLOC_FASTPATH",
    "ALLOC_SLOWPATH",
    "FREE_FASTPATH",
    "FREE_SLOWPATH",
    "LIST_LOCK",
    "ALIEN_LOCK",
    "REFILL_SHARED",
    "REFILL_SLABS",
    "REFILL_EMPTY",
    "FLUSH_SHARED",
    "FLUSH_SLABS",
    "GROWN",
    "DESTROYED",
    "REAPED",
    "NODEALLOCS",
    "NODEFREES",
    "ACOVERFLOW",
)


def small_machine(cpus: int = 3, nodes: int = 1) -> MachineSpec:
    """A machine whose state is small, so that it can be copied thousands of times."""
    return replace(
        load_machine("e5345_8p"),
        cpus=cpus,
        cpus_per_node=cpus // nodes,
        cpus_per_l2=1,
        l2=CacheGeometry(64 * 1024, 16),
    )


@dataclass(frozen=True)
class SlabAt:
    """A slab in the machine: its first page frame, where its objects start and how large they are."""

    frame: int
    first_object: int
    size: int


class SlabDriver:
    """One machine that has run nothing but what the caller asks for.

    Parameters
    ----------
    machine : CPU c is on node c * nodes // cpus
    ops : objects that a CPU may keep
    options : options of the kernel
    """

    def __init__(self, machine: MachineSpec | None = None, ops: int = 64, **options: int) -> None:
        used = machine or small_machine()
        spec = SessionSpec("x", "slab", "D", (used.page_size_bytes,), ops, 1, options=options)
        self.kernel = boot(session_job(spec, used))
        self.machine, self.program, self.memory = self.kernel.machine, self.kernel.program, self.kernel.memory
        self.spec = used
        self.sizes = malloc_sizes(Shape.of(used))
        self.kept = [self.memory.global_address("objects", cpu) for cpu in range(used.cpus)]

    # --- operations -----------------------------------------------------------------------------

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
        return self.read_word(self.kept[cpu])

    def free(self, cpu: int, address: int) -> None:
        """Free an object on a CPU."""
        self.machine.write(self.kept[cpu], address, self.spec.word_bytes)
        self.run(cpu, "test_free", cpu, cpu + 1, 1)

    # --- structures -------------------------------------------------------------------------------

    def read_word(self, address: int) -> int:
        """A pointer or a word."""
        return self.machine.read(address, self.spec.word_bytes)

    def counters(self) -> dict[str, int]:
        """The allocator's counters since boot."""
        sums = self.machine.counters().sum(axis=0)[HARDWARE_COUNTERS:]
        both = dict(zip(self.program.counters, sums.tolist(), strict=True))
        return {name: both[name] for name in COUNTERS}

    def index(self, size: int) -> int:
        """Index of the kmalloc cache of objects of exactly this size."""
        return self.sizes.index(size)

    def view(self, size: int) -> CacheView:
        """All of a cache's slabs."""
        return read_cache(self.kernel, self.index(size))

    def cache(self, size: int):  # type: ignore[no-untyped-def]
        """A kmem_cache; can be written."""
        return self.memory.one(self.kernel.cache_address(self.index(size)), "kmem_cache")

    def lists(self, size: int, node: int = 0):  # type: ignore[no-untyped-def]
        """A kmem_list3; can be written."""
        return self.memory.one(list3_addresses(self.kernel, self.index(size))[node], "kmem_list3")

    def array_address(self, size: int, name: str) -> int:
        """Address of an array by its name in the view, ``"CPU 0"`` or ``"shared array of node 0"``."""
        return next(array.address for array in self.view(size).arrays if array.name == name)

    def array(self, size: int, name: str):  # type: ignore[no-untyped-def]
        """An array_cache; can be written."""
        return self.memory.one(self.array_address(size, name), "array_cache")

    def entry_address(self, size: int, name: str, number: int) -> int:
        """Address of an entry of an array."""
        first = self.program.struct("array_cache").fields["entry"].offset_bytes
        return self.array_address(size, name) + first + number * self.spec.word_bytes

    def page(self, frame: int):  # type: ignore[no-untyped-def]
        """A page structure; can be written."""
        address = self.memory.global_address("mem_map") + frame * self.program.struct("page").size_bytes
        return self.memory.one(address, "page")

    def slab_struct(self, frame: int) -> int:
        """Address of the struct slab of a slab by its first page."""
        return int(self.page(frame)["lru"]["prev"])

    def slab_field(self, frame: int, field: str) -> int:
        """Address of a field of a struct slab."""
        return self.slab_struct(frame) + self.program.struct("slab").fields[field].offset_bytes

    def chain(self, address: int) -> list[int]:
        """Indices on the chain of the struct slab at an address, read one by one."""
        fields = self.program.struct("slab")
        index = self.machine.read(address + fields.fields["free"].offset_bytes, 4)
        found = []
        while index != 0xFFFFFFFF:
            found.append(index)
            index = self.machine.read(address + fields.size_bytes + 4 * index, 4)
        return found

    def slabs(self, size: int) -> dict[int, SlabAt]:
        """First page frame -> slab."""
        view = self.view(size)
        return {
            int(frame): SlabAt(int(frame), int(start), size)
            for frame, start in zip(view.table.page_frame, view.s_mem, strict=True)
        }

    def listed(self, size: int, node: int) -> dict[str, list[int]]:
        """List -> page frames of the slabs on it, in order."""
        view = self.view(size)
        frame_of = dict(zip(view.slab_address.tolist(), view.table.page_frame.tolist(), strict=True))
        return {name: [frame_of[int(slab)] for slab in view.lists[node, name]] for name in LISTS}
