"""Machine files: topology, caches and costs of a simulated machine, as TOML.

``load_machine_file`` reads and checks one.  Every cost carries a value, its unit, where it comes from and
the range in which it is plausible; ``calibrated = true`` says that the value was fitted to published
figures.  The format is described in docs/machine-files.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slubviz.hw.toml_text import parse_toml

MOST_BYTES = 256 << 10  #: of a machine file
MAX_CPUS = 4096
MAX_NODES = 1024
LARGEST_COST = 1_000_000.0  #: cycles
#: Outer caches on a machine; the directory's mask has this many bits, beyond that one bit per
#: group.
DIRECTORY_BITS = 46

#: name -> (unit, meaning).  Units: cycles, or a fraction of 1.
COST_TABLE: dict[str, tuple[str, str]] = {
    "instruction": ("cycles", "a plain register instruction or branch, mean"),
    "multiply": ("cycles", "an integer multiplication"),
    "divide": ("cycles", "an integer division"),
    "bit_scan": ("cycles", "the position of the highest bit that is set"),
    "call": ("cycles", "a function call, with its share of register saves"),
    "return": ("cycles", "a return, with its share of register restores"),
    "load": ("cycles", "a load that hits the L1, mean exposed latency"),
    "store": ("cycles", "a store that hits a line this CPU owns"),
    "cmpxchg_local": ("cycles", "compare-and-exchange without lock prefix, line owned"),
    "cmpxchg_double_local": ("cycles", "double-word compare-and-exchange without lock prefix"),
    "locked_operation": ("cycles", "a locked read-modify-write, line owned, store buffer empty"),
    "irq_save": ("cycles", "save the interrupt flag and disable interrupts"),
    "irq_restore": ("cycles", "restore the interrupt flag"),
    "irq_disable": ("cycles", "disable interrupts"),
    "irq_enable": ("cycles", "enable interrupts"),
    "preempt": ("cycles", "raise or lower the preempt count"),
    "cpu_id": ("cycles", "find the number of the running CPU or its node"),
    "barrier_write": ("cycles", "write barrier"),
    "barrier_read": ("cycles", "read barrier"),
    "barrier_full": ("cycles", "full barrier, store buffer empty"),
    "rdtsc": ("cycles", "read the time stamp counter"),
    "pause": ("cycles", "cpu_relax in a spin loop"),
    "interrupt_entry": ("cycles", "from the interrupted instruction to the handler's first"),
    "interrupt_exit": ("cycles", "from the handler's last instruction back"),
    "l2_hit": ("cycles", "L1 miss that the L2 answers"),
    "transfer_same_l2": ("cycles", "line modified in another L1 under the same L2"),
    "transfer_same_package": ("cycles", "line held by another outer cache of the package"),
    "transfer_other_package": ("cycles", "line held by an outer cache of another package, same node"),
    "transfer_other_node": ("cycles", "line held by an outer cache of another node"),
    "memory_local": ("cycles", "line from the memory of this CPU's node"),
    "memory_remote": ("cycles", "line from the memory of another node"),
    "store_window": ("cycles", "how far the store buffer may be behind before a store stalls"),
    "bus_transaction": ("cycles", "how long one line occupies the bus of a node"),
    "spinner_reread": ("cycles", "one more waiter reading a lock's line again after it was written"),
    "spinner_retry": ("cycles", "one more waiter trying in vain to take a lock after a release"),
    "store_miss_share": (
        "fraction",
        "share of a store miss by which it ends after the miss before it (misses overlap)",
    ),
    "prefetch_leftover": ("fraction", "share of a miss left when the stream prefetcher was ahead"),
}

#: Further costs of a machine with an L3.
L3_COST_TABLE: dict[str, tuple[str, str]] = {
    "l3_hit": ("cycles", "L2 miss that the L3 answers"),
    "transfer_same_l3": ("cycles", "line modified in, or taken from, another L2 under the same L3"),
}


class MachineFileError(ValueError):
    """A machine file is wrong; the text says where and how to mend it."""


@dataclass(frozen=True)
class Cost:
    """One cost with its evidence."""

    value: float
    unit: str
    source: str
    plausible_low: float
    plausible_high: float
    calibrated: bool


@dataclass(frozen=True)
class CacheGeometry:
    """Size and shape of a cache."""

    size_bytes: int
    ways: int

    def sets(self, line_bytes: int) -> int:
        """Number of sets, a power of two."""
        return self.size_bytes // (self.ways * line_bytes)


@dataclass(frozen=True)
class MachineSpec:
    """A machine to simulate.  Consecutive CPU numbers share an L1, L2, L3, package and node.

    The *outer* caches are the L3s, or the L2s of a machine without: between them lines are kept coherent by
    transfers.
    """

    name: str
    title: str
    cpus: int
    cpus_per_l1: int
    cpus_per_l2: int
    l2_per_package: int
    cpus_per_node: int
    page_size_bytes: int
    word_bytes: int
    fragmented_share: float  #: blocks of 1024 pages of which half, at random, is in use at boot
    clock_hz: float
    line_bytes: int
    l1: CacheGeometry
    l2: CacheGeometry
    prefetch_reach_lines: int  #: largest constant stride that the prefetcher follows; 0: none
    fast_cmpxchg_local: bool
    adjacent_line_prefetch: bool  #: a miss of an outer cache brings the other line of its pair too
    costs: Mapping[str, Cost]
    file_cpus: int = 0  #: CPUs that the machine file says, whatever ``with_cpus`` made of it
    node_size_fixed: bool = False  #: ``with_cpus`` made it of several nodes, even if only one is left
    l3: CacheGeometry | None = None
    cpus_per_l3: int = 0  #: 0 without an L3
    l3_per_package: int = 0  #: 0 without an L3
    smp_kernel: bool = True  #: false: a kernel for one CPU, without spin locks, barriers and lock prefixes

    @property
    def nodes(self) -> int:
        """Number of NUMA nodes."""
        return -(-self.cpus // self.cpus_per_node)

    @property
    def l2_count(self) -> int:
        """Number of L2 caches."""
        return -(-self.cpus // self.cpus_per_l2)

    @property
    def outer(self) -> CacheGeometry:
        """Shape of the outer caches."""
        return self.l3 or self.l2

    @property
    def middle(self) -> CacheGeometry | None:
        """Shape of the caches between L1 and outer level; None if there is no such level."""
        return self.l2 if self.l3 else None

    @property
    def cpus_per_outer(self) -> int:
        """CPUs that share an outer cache."""
        return self.cpus_per_l3 if self.l3 else self.cpus_per_l2

    @property
    def outer_count(self) -> int:
        """Number of outer caches."""
        return -(-self.cpus // self.cpus_per_outer)

    @property
    def outer_per_package(self) -> int:
        """Outer caches of a package."""
        return self.l3_per_package if self.l3 else self.l2_per_package

    def with_cpus(self, cpus: int) -> MachineSpec:
        """The same machine with another number of CPUs.

        An SMP machine stays one node; nodes of a NUMA machine keep their size, also when it was cut to one
        node before.

        Raises
        ------
        MachineFileError
            If the number is not in 1 .. 4096, or the machine's kernel is one for a single CPU.
        """
        if not 1 <= cpus <= MAX_CPUS:
            raise MachineFileError(f"cpus must be 1 to {MAX_CPUS}, not {cpus}")
        if cpus > 1 and not self.smp_kernel:
            raise MachineFileError(
                f"cpus must be 1, not {cpus}: {self.name} runs a kernel for one CPU (features.smp_kernel)"
            )
        numa = self.nodes > 1 or self.node_size_fixed
        per_node = self.cpus_per_node if numa else cpus
        if -(-cpus // per_node) > MAX_NODES:
            raise MachineFileError(f"{cpus} CPUs make more than {MAX_NODES} nodes of {per_node}")
        return replace(self, cpus=cpus, cpus_per_node=per_node, node_size_fixed=numa)

    def with_costs(self, values: Mapping[str, float]) -> MachineSpec:
        """The same machine with other cost values (for calibration and what-if runs)."""
        costs = dict(self.costs)
        for name, value in values.items():
            costs[name] = replace(costs[name], value=value)
        return replace(self, costs=costs)


def _shown(value: object) -> str:
    """A value in a message: one short line, whatever the file holds."""
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _Reader:
    """Checked access to the tables of one file; every complaint names file and key."""

    def __init__(self, where: str, table: Mapping[str, Any], path: str = "") -> None:
        self.where = where
        self.table = table
        self.path = path
        self.seen: set[str] = set()

    def fail(self, key: str, what: str) -> MachineFileError:
        name = key if key.isprintable() else repr(key)
        return MachineFileError(f"{self.where}: {self.path}{name}: {what}")

    def get(self, key: str, kinds: tuple[type, ...], what: str, default: Any = None) -> Any:
        self.seen.add(key)
        if key not in self.table:
            if default is not None:
                return default
            raise self.fail(key, f"is missing; give {what}")
        value = self.table[key]
        if isinstance(value, bool) and bool not in kinds:
            raise self.fail(key, f"is {value}; give {what}")
        if not isinstance(value, kinds):
            raise self.fail(key, f"is {_shown(value)}; give {what}")
        return value

    def has(self, key: str) -> bool:
        """Whether an optional key is given."""
        self.seen.add(key)
        return key in self.table

    def text(self, key: str) -> str:
        value = self.get(key, (str,), "a text in quotes")
        if not value.strip():
            raise self.fail(key, "is empty; give a text")
        return str(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        return bool(self.get(key, (bool,), "true or false", default))

    def integer(self, key: str, low: int, high: int, *, power_of_two: bool = False) -> int:
        value = int(self.get(key, (int,), f"a whole number from {low} to {high}"))
        if not low <= value <= high:
            raise self.fail(key, f"is {_shown(value)}; give a whole number from {low} to {high}")
        if power_of_two and value & (value - 1):
            raise self.fail(key, f"is {value}; give a power of two")
        return value

    def number(self, key: str, low: float, high: float) -> float:
        value = self.get(key, (int, float), f"a number from {low:g} to {high:g}")
        if not low <= value <= high:
            raise self.fail(key, f"is {_shown(value)}; give a number from {low:g} to {high:g}")
        return float(value)

    def section(self, key: str) -> _Reader:
        table = self.get(key, (dict,), f"a section [{self.path}{key}]")
        return _Reader(self.where, table, f"{self.path}{key}.")

    def finish(self) -> None:
        for key in self.table:
            if key not in self.seen:
                known = ", ".join(sorted(self.seen))
                raise self.fail(key, f"is not known here; known are {known}")


def _is_bound(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST_COST


def _read_cost(reader: _Reader, name: str, unit: str) -> Cost:
    entry = reader.section(name)
    given_unit = entry.text("unit")
    if given_unit != unit:
        raise entry.fail("unit", f"is {_shown(given_unit)}; this cost is in {unit}")
    highest = 1.0 if unit == "fraction" else LARGEST_COST
    value = entry.number("value", 0.0, highest)
    bounds = entry.get("range", (list,), "the plausible range as [low, high]")
    if len(bounds) != 2 or not all(_is_bound(b) for b in bounds):
        raise entry.fail("range", f"is {_shown(bounds)}; give two numbers, [low, high]")
    low, high = float(bounds[0]), float(bounds[1])
    if not low <= value <= high:
        raise entry.fail("value", f"is {value:g}, outside its plausible range [{low:g}, {high:g}]")
    cost = Cost(value, unit, entry.text("source"), low, high, entry.flag("calibrated", False))
    entry.finish()
    return cost


def _read_cache(reader: _Reader, line_bytes: int) -> CacheGeometry:
    size = reader.integer("size_bytes", line_bytes, 1 << 30)
    ways = reader.integer("ways", 1, 64)
    reader.finish()
    sets = size // (ways * line_bytes)
    if sets * ways * line_bytes != size or sets & (sets - 1) or sets == 0:
        raise reader.fail(
            "size_bytes",
            f"is {size}; {ways} ways of {line_bytes}-byte lines must make a power of two of sets",
        )
    return CacheGeometry(size, ways)


def _read_levels(topology: _Reader, caches: _Reader, costs: _Reader, line_bytes: int) -> dict[str, Any]:
    """The cache levels and who shares them, as arguments of MachineSpec."""
    levels: dict[str, Any] = {
        "l1": _read_cache(caches.section("l1"), line_bytes),
        "l2": _read_cache(caches.section("l2"), line_bytes),
        "cpus_per_l1": topology.integer("cpus_per_l1", 1, MAX_CPUS),
        "cpus_per_l2": topology.integer("cpus_per_l2", 1, MAX_CPUS),
        "l2_per_package": 0,
    }
    if caches.has("l3"):
        if "l2_per_package" in topology.table:
            raise topology.fail("l2_per_package", "a machine with an L3 gives l3_per_package instead")
        levels["l3"] = _read_cache(caches.section("l3"), line_bytes)
        levels["cpus_per_l3"] = topology.integer("cpus_per_l3", 1, MAX_CPUS)
        levels["l3_per_package"] = topology.integer("l3_per_package", 1, MAX_CPUS)
        return levels
    for reader, keys in ((topology, ("cpus_per_l3", "l3_per_package")), (costs, tuple(L3_COST_TABLE))):
        for key in keys:
            if key in reader.table:
                raise reader.fail(key, "is for machines with an L3; add [cache.l3] or take this out")
    levels["l2_per_package"] = topology.integer("l2_per_package", 1, MAX_CPUS)
    return levels


def _check_levels(spec: MachineSpec, topology: _Reader, caches: _Reader) -> None:
    """Each level is shared by whole groups of the level above, and can include it."""
    if spec.cpus_per_l2 % spec.cpus_per_l1:
        raise topology.fail("cpus_per_l2", "must be a multiple of cpus_per_l1")
    if spec.l3 and spec.cpus_per_l3 % spec.cpus_per_l2:
        raise topology.fail("cpus_per_l3", "must be a multiple of cpus_per_l2")
    if spec.nodes > 1 and spec.cpus_per_node % spec.cpus_per_outer:
        outer = "cpus_per_l3" if spec.l3 else "cpus_per_l2"
        raise topology.fail("cpus_per_node", f"must be a multiple of {outer}")
    if spec.l2.size_bytes < spec.l1.size_bytes:
        raise caches.fail("l2.size_bytes", "the L2 includes the L1s, so it cannot be smaller")
    if spec.l3 and spec.l3.size_bytes < spec.l2.size_bytes:
        raise caches.fail("l3.size_bytes", "the L3 includes the L2s, so it cannot be smaller")


def parse_machine(text: str, where: str) -> MachineSpec:
    """Read a machine from the text of a machine file.

    Parameters
    ----------
    text : the file's content
    where : name for messages

    Raises
    ------
    MachineFileError
        With file, key, what is wrong and what to give instead.
    """
    try:
        document = parse_toml(text)
    except ValueError as error:
        raise MachineFileError(f"{where}: not a TOML file: {error}") from error
    root = _Reader(where, document)
    topology = root.section("topology")
    cpus = topology.integer("cpus", 1, MAX_CPUS)
    memory = root.section("memory")
    caches = root.section("cache")
    line_bytes = caches.integer("line_bytes", 32, 1024, power_of_two=True)
    page_size = memory.integer("page_size_bytes", 1024, 1 << 20, power_of_two=True)
    if page_size < line_bytes:
        raise memory.fail("page_size_bytes", f"is {page_size}, less than a cache line of {line_bytes}")
    word_bytes = memory.integer("word_bytes", 4, 8, power_of_two=True)
    features = root.section("features")
    cost_table = root.section("cost")
    levels = _read_levels(topology, caches, cost_table, line_bytes)
    cost_names = COST_TABLE | (L3_COST_TABLE if "l3" in levels else {})
    spec = MachineSpec(
        file_cpus=cpus,
        name=root.text("name"),
        title=root.text("title"),
        cpus=cpus,
        cpus_per_node=topology.integer("cpus_per_node", 1, MAX_CPUS),
        page_size_bytes=page_size,
        word_bytes=word_bytes,
        fragmented_share=memory.number("fragmented_share", 0.0, 0.9),
        clock_hz=topology.number("clock_hz", 1e6, 1e11),
        line_bytes=line_bytes,
        prefetch_reach_lines=features.integer("prefetch_reach_lines", 0, 64),
        adjacent_line_prefetch=features.flag("adjacent_line_prefetch", False),
        fast_cmpxchg_local=features.flag("fast_cmpxchg_local"),
        smp_kernel=features.flag("smp_kernel", True),
        costs={name: _read_cost(cost_table, name, unit) for name, (unit, _) in cost_names.items()},
        **levels,
    )
    for reader in (root, topology, memory, caches, features, cost_table):
        reader.finish()
    _check_levels(spec, topology, caches)
    if spec.nodes > MAX_NODES:
        raise topology.fail("cpus_per_node", f"makes {spec.nodes} nodes; at most {MAX_NODES} are possible")
    if not spec.smp_kernel and cpus > 1:
        raise features.fail("smp_kernel", f"is false: a kernel for one CPU does not run on {cpus}")
    return spec


def load_machine_file(path: Path) -> MachineSpec:
    """Read and check a machine file.

    Raises
    ------
    MachineFileError
        If it cannot be read or is wrong.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise MachineFileError(f"{path}: is too large; a machine file has at most {MOST_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8-sig")  # editors of other systems mark UTF-8
    except UnicodeDecodeError as error:
        raise MachineFileError(f"{path}: not a text file in UTF-8") from error
    except OSError as error:
        raise MachineFileError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_machine(text, str(path))
