"""The known workloads.

A to F: the tests of the cover mail of October 2007.  kmalloc-kfree and kmalloc-kfree-pairs: Mathieu
Desnoyers' of March 2008.  irq-cmpxchg: his of 2007.  bulk: Jesper Dangaard Brouer's of 2015.  hackbench:
traffic like that of the benchmark of that name, which Joonsoo Kim ran in 2012.  ``docs/workloads.md`` says
what each does and leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence

from slubviz.model.workload import (
    Demand,
    Parameter,
    Phase,
    Setting,
    Start,
    Sweep,
    Workload,
    mixed,
    powers_of_two,
)

#: Smallest of the sizes that the tests run through.
SMALLEST_SIZE = 8
BULK_OBJECT_BYTES = 256
BULK_POINTS = (1, 2, 3, 4, 8, 16, 30, 32, 34, 48, 64, 128, 158, 250)
MOST_BULK_OBJECTS = 1024
#: Slabs in which other users hold objects: more than the largest published bulk fills.
BULK_SHARED_SLABS = 16
#: Unmeasured objects before each bulk point.
BULK_SETTLE_OBJECTS = 1000
MESSAGE_BYTES = 256
_LAMETER = "lameter_2007_tests_A-F.csv"
_DESNOYERS = "desnoyers_2008_p4_up.csv"
_BULK_CALLS = ("kmem_cache_alloc", "kmem_cache_free", "kmem_cache_alloc_bulk", "kmem_cache_free_bulk")


def _sizes_to_a_page(page_size_bytes: int) -> tuple[int, ...]:
    return powers_of_two(SMALLEST_SIZE, page_size_bytes)


def _sizes_to_four_pages(page_size_bytes: int) -> tuple[int, ...]:
    return powers_of_two(SMALLEST_SIZE, 4 * page_size_bytes)


# --- tests of kmalloc and kfree ----------------------------------------------------------------------


def _keep_then_free(tests: Sequence[str], size: int, setting: Setting) -> list[Phase]:
    """Tests A and B: two tests, one after the other."""
    first, second = _kmalloc_kfree(("A",), size, setting)
    kept, ops = first.kept_after, setting.ops
    a, b = "A" in tests, "B" in tests
    return [
        Phase("A", "kmalloc" if a else "setup", size, a, first.starts, ops, ops, kept),
        Phase("B", "kfree" if b else "cleanup", size, b, second.starts, ops, ops),
    ]


def _kmalloc_kfree(tests: Sequence[str], size: int, setting: Setting) -> list[Phase]:
    """One test, two cells: CPU 0 allocates ops objects and frees them in the same order."""
    name, ops = tests[0], setting.ops
    return [
        Phase(name, "kmalloc", size, True, (Start(0, "test_alloc", (size, ops)),), ops, ops, ops),
        Phase(name, "kfree", size, True, (Start(0, "test_free", (0, 1, ops)),), ops, ops),
    ]


def _pairs(tests: Sequence[str], size: int, setting: Setting) -> list[Phase]:
    return _pairs_on(tests[0], size, setting, 1)


def _pairs_everywhere(tests: Sequence[str], size: int, setting: Setting) -> list[Phase]:
    return _pairs_on(tests[0], size, setting, setting.cpus)


def _pairs_on(name: str, size: int, setting: Setting, cpus: int) -> list[Phase]:
    starts = tuple(Start(cpu, "test_pairs", (size, setting.ops)) for cpu in range(cpus))
    return [Phase(name, "kmalloc+kfree", size, True, starts, setting.ops * cpus, setting.ops)]


def _keep_everywhere(tests: Sequence[str], size: int, setting: Setting) -> list[Phase]:
    name, ops, cpus = tests[0], setting.ops, setting.cpus
    starts = tuple(Start(cpu, "test_alloc", (size, ops)) for cpu in range(cpus))
    cleanup = tuple(Start(cpu, "test_free", (cpu, cpu + 1, ops)) for cpu in range(cpus))
    return [
        Phase(name, "kmalloc", size, True, starts, ops * cpus, ops, ops * cpus),
        Phase(name, "cleanup", size, False, cleanup, ops * cpus, ops),
    ]


def _free_on_one(tests: Sequence[str], size: int, setting: Setting) -> list[Phase]:
    """Test F; a cell is the time of all frees divided by the operations of one CPU."""
    name, ops, others = tests[0], setting.ops, setting.cpus - 1
    starts = tuple(Start(cpu, "test_alloc", (size, ops)) for cpu in range(1, setting.cpus))
    free_all = (Start(0, "test_free_remote", (1, setting.cpus, ops)),)
    return [
        Phase(name, "setup", size, False, starts, ops * others, ops, ops * others),
        Phase(name, "kfree", size, True, free_all, ops * others, ops),
    ]


def _held_by_one(size: int, setting: Setting) -> Demand:
    return Demand(size, setting.ops, 1)


def _held_by_nobody(size: int, setting: Setting) -> Demand:
    return Demand(size, setting.ops, 0)


def _held_by_all(size: int, setting: Setting) -> Demand:
    return Demand(size, setting.ops, setting.cpus)


def _held_by_others(size: int, setting: Setting) -> Demand:
    return Demand(size, setting.ops, setting.cpus - 1)


# --- bulk --------------------------------------------------------------------------------------------


def _bulk(tests: Sequence[str], objects: int, setting: Setting) -> list[Phase]:
    """Allocate and free ``objects`` at a time, so that about ops objects are handled at each point."""
    name, held = tests[0], _bulk_held(setting)
    rounds = max(1, setting.ops // objects)
    settling = -(-BULK_SETTLE_OBJECTS // objects)

    def phase(operation: str, measured: bool, calls: int) -> Phase:
        starts = (Start(0, "test_bulk", (objects, calls)),)
        return Phase(
            name,
            operation,
            BULK_OBJECT_BYTES,
            measured,
            starts,
            calls * objects,
            calls * objects,
            held,
            objects,
        )

    return [phase("setup", False, settling), phase("alloc+free", True, rounds)]


def _bulk_held(setting: Setting) -> int:
    values = setting.parameters
    held = (BULK_SHARED_SLABS - 1) * values["OTHER_PARTIAL"] + values["OTHER_OBJECTS"]
    return held if values["MERGE"] else 0


def _bulk_once(setting: Setting) -> list[Phase]:
    """Merged with kmalloc-256: other users hold objects in each slab."""
    held = _bulk_held(setting)
    if not held:
        return []
    values = setting.parameters
    arguments = (BULK_SHARED_SLABS, values["OTHER_PARTIAL"], values["OTHER_OBJECTS"])
    starts = (Start(0, "bulk_share", arguments),)
    return [Phase("bulk", "setup", BULK_OBJECT_BYTES, False, starts, held, held, held)]


def _bulk_demand(objects: int, setting: Setting) -> Demand:
    return Demand(BULK_OBJECT_BYTES, objects + 64 * BULK_SHARED_SLABS, 1)


# --- interrupts against cmpxchg_local ----------------------------------------------------------------


def _irq_cmpxchg(tests: Sequence[str], point: int, setting: Setting) -> list[Phase]:
    loops = setting.parameters["LOOPS"]
    return [
        Phase(tests[0], operation, 0, True, (Start(0, function, (loops,)),), loops, loops)
        for operation, function in (
            ("cmpxchg_local", "test_cmpxchg_local"),
            ("irq_restore", "test_irq_restore"),
            ("irq_save", "test_irq_save"),
        )
    ]


def _no_objects(point: int, setting: Setting) -> Demand:
    return Demand(SMALLEST_SIZE, 1, 1)


# --- hackbench ---------------------------------------------------------------------------------------


def hackbench_rounds(setting: Setting) -> int:
    """Messages from each sender to each receiver of its group: about ops for each CPU in all."""
    values = setting.parameters
    links = values["GROUPS"] * values["SENDERS"] * values["RECEIVERS"]
    return max(1, setting.ops * setting.cpus // links)


def _hackbench(tests: Sequence[str], point: int, setting: Setting) -> list[Phase]:
    values = setting.parameters
    rounds = hackbench_rounds(setting)
    messages = rounds * values["GROUPS"] * values["SENDERS"] * values["RECEIVERS"]
    per_cpu = messages / setting.cpus
    name, jitter = tests[0], values["START_JITTER"] + 1
    starts = tuple(
        Start(cpu, "hackbench", (mixed(setting.seed, cpu) % jitter,)) for cpu in range(setting.cpus)
    )
    prepare = (Start(0, "hackbench_setup", (rounds,)),)
    tasks = values["GROUPS"] * (values["SENDERS"] + values["RECEIVERS"])
    return [
        Phase(name, "setup", MESSAGE_BYTES, False, prepare, tasks, tasks),
        Phase(name, "message", MESSAGE_BYTES, True, starts, messages, max(1, int(per_cpu)), divisor=per_cpu),
    ]


def _hackbench_demand(point: int, setting: Setting) -> Demand:
    values = setting.parameters
    # A queue is looked at before the message is put into it, so every sender may exceed the depth by one.
    queued = values["GROUPS"] * values["RECEIVERS"] * (values["QUEUE_DEPTH"] + values["SENDERS"])
    return Demand(MESSAGE_BYTES, queued, setting.cpus)


# --- the table ---------------------------------------------------------------------------------------

_ALL = (
    Workload(
        "A",
        "one CPU allocates, keeping the objects",
        ("kmalloc",),
        ("kmalloc", "one CPU"),
        _keep_then_free,
        _held_by_one,
        "AB",
        points=_sizes_to_a_page,
        published=_LAMETER,
    ),
    Workload(
        "B",
        "one CPU frees the objects of test A in the same order",
        ("kfree",),
        ("kfree", "one CPU"),
        _keep_then_free,
        _held_by_one,
        "AB",
        points=_sizes_to_a_page,
        published=_LAMETER,
    ),
    Workload(
        "C",
        "one CPU allocates and frees at once",
        ("kmalloc+kfree",),
        ("kmalloc + kfree pairs", "one CPU"),
        _pairs,
        _held_by_nobody,
        "C",
        points=_sizes_to_a_page,
        published=_LAMETER,
    ),
    Workload(
        "D",
        "every CPU allocates at the same time",
        ("kmalloc",),
        ("kmalloc", "all CPUs at once"),
        _keep_everywhere,
        _held_by_all,
        "D",
        points=_sizes_to_a_page,
        published=_LAMETER,
    ),
    Workload(
        "E",
        "every CPU allocates and frees at once, at the same time",
        ("kmalloc+kfree",),
        ("kmalloc + kfree pairs", "all CPUs at once"),
        _pairs_everywhere,
        _held_by_nobody,
        "E",
        points=_sizes_to_a_page,
        published=_LAMETER,
    ),
    Workload(
        "F",
        "CPUs 1 and up allocate, CPU 0 frees everything",
        ("kfree",),
        ("kfree of other CPUs' objects", "all frees / operations of one CPU"),
        _free_on_one,
        _held_by_others,
        "F",
        points=_sizes_to_a_page,
        cpus=2,
        published=_LAMETER,
    ),
    Workload(
        "kmalloc-kfree",
        "one CPU allocates, then frees in the same order; sizes up to four pages",
        ("kmalloc", "kfree"),
        ("", "one CPU"),
        _kmalloc_kfree,
        _held_by_one,
        "kmalloc-kfree",
        points=_sizes_to_four_pages,
        published=_DESNOYERS,
    ),
    Workload(
        "kmalloc-kfree-pairs",
        "one CPU allocates and frees at once; sizes up to four pages",
        ("kmalloc+kfree",),
        ("", "one CPU"),
        _pairs,
        _held_by_nobody,
        "kmalloc-kfree-pairs",
        points=_sizes_to_four_pages,
        published=_DESNOYERS,
    ),
    Workload(
        "bulk",
        "one CPU allocates and frees N objects of 256 bytes with one call each, N = 1 to 250",
        ("alloc+free",),
        ("", "one CPU, 256-byte objects"),
        _bulk,
        _bulk_demand,
        "bulk",
        sweep=Sweep.OBJECTS,
        points=lambda page_size_bytes: BULK_POINTS,
        files=("bulk.py",),
        constants={"MOST_BULK_OBJECTS": MOST_BULK_OBJECTS},
        needs=_BULK_CALLS,
        parameters=(
            Parameter(
                "MERGE", 1, 0, 1, "1: the cache is merged with kmalloc-256, which others use; 0: of its own"
            ),
            Parameter("OTHER_OBJECTS", 1, 1, 8, "objects of the cpu slab that other users hold"),
            Parameter("OTHER_PARTIAL", 16, 1, 31, "objects of each partial slab that other users hold"),
        ),
        once=_bulk_once,
        published="brouer_2015_bulk_free_i7-4790k.csv",
    ),
    Workload(
        "irq-cmpxchg",
        "20,000 times cmpxchg_local, restoring flags (STI) and saving flags (CLI)",
        ("cmpxchg_local", "irq_restore", "irq_save"),
        ("", "one CPU"),
        _irq_cmpxchg,
        _no_objects,
        "irq-cmpxchg",
        sweep=Sweep.NOTHING,
        files=("irq_cmpxchg.py",),
        parameters=(Parameter("LOOPS", 20_000, 1, 1_000_000_000, "rounds of each loop"),),
        published="desnoyers_2007_irq_vs_cmpxchg.csv",
    ),
    Workload(
        "hackbench",
        "groups of senders and receivers pass 256-byte objects between CPUs",
        ("message",),
        ("", "all CPUs; cycles of all CPUs / messages"),
        _hackbench,
        _hackbench_demand,
        "hackbench",
        sweep=Sweep.NOTHING,
        files=("hackbench.py",),
        parameters=(
            Parameter("GROUPS", 16, 1, 64, "groups"),
            Parameter("SENDERS", 8, 1, 64, "senders in a group"),
            Parameter("RECEIVERS", 8, 1, 64, "receivers in a group"),
            Parameter("QUEUE_DEPTH", 128, 1, 4096, "messages in a receiver's queue at which senders wait"),
            Parameter("START_JITTER", 300, 0, 1_000_000, "latest start of a CPU in cycles; the seed decides"),
        ),
    ),
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
