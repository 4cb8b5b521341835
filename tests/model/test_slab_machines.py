"""SLAB on machines of other shapes, on many CPUs at once, in pieces; kernel files that lack something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slubviz.hw import layout as L
from slubviz.hw.machine_file import MachineSpec
from slubviz.hw.scheduler import set_key
from slubviz.model.boot import boot
from slubviz.model.errors import RequestError, UserError
from slubviz.model.families import FAMILIES
from slubviz.model.geometry import OrderOptions
from slubviz.model.invariants import check
from slubviz.model.kernels import KERNELS, KernelVariant
from slubviz.model.machines import load_machine
from slubviz.model.requests import SessionSpec, compile_kernel, session_job
from slubviz.model.session import Session
from slubviz.model.slab_view import read_cache
from tests.model.slab_driver import SlabDriver, small_machine

BASE = load_machine("e5345_8p")
MACHINES = {
    "one_node": BASE,
    "two_nodes": replace(BASE, cpus_per_node=4),
    "uneven_nodes": replace(BASE, cpus=7, cpus_per_node=4),
    "words_of_32_bits": replace(BASE, word_bytes=4),
    "words_of_32_bits_on_nodes": replace(BASE, word_bytes=4, cpus_per_node=2),
    "lines_of_32_bytes": replace(BASE, word_bytes=4, line_bytes=32),
    "ia64_like": replace(BASE, page_size_bytes=16384, line_bytes=128, cpus_per_node=2),
    "one_cpu": replace(BASE, cpus=1, cpus_per_node=1, cpus_per_l2=1),
}
SIZES = (8, 96, 192, 512, 2048, 4096, 16384)


def session(machine: MachineSpec, tests: str, sizes: tuple[int, ...], ops: int, **options: int) -> Session:
    spec = SessionSpec("x", "slab", tests[0], sizes, ops, 1, tests=tuple(tests), check=True, options=options)
    return Session(spec, machine)


@pytest.mark.parametrize("tests", ["AB", "D", "F"])
@pytest.mark.parametrize("name", MACHINES)
def test_every_test_runs_and_breaks_nothing(name: str, tests: str) -> None:
    machine = MACHINES[name]
    if tests == "F" and machine.cpus == 1:
        pytest.skip("F needs a second CPU")
    made = session(machine, tests, SIZES, 100)
    made.run_to_end()
    assert len(made.results) == len(SIZES) * len(tests)
    assert check(made.booted, expected_allocated=0) == []


@pytest.mark.parametrize("option", [0, 1])
def test_remote_frees_with_and_without_alien_caches(option: int) -> None:
    """Per object of another node: an alien lock, and a list_lock for every twelve; or a list_lock each."""
    driver = SlabDriver(small_machine(4, 2), USE_ALIEN_CACHES=option)
    objects = [driver.alloc(0, 256) for _ in range(30)]
    before = driver.counters()
    for address in objects:
        driver.free(2, address)
    gained = {name: value - before[name] for name, value in driver.counters().items() if value > before[name]}
    both = {"FREE_SLOWPATH": 30, "NODEFREES": 30}
    if option:
        assert gained == {**both, "ALIEN_LOCK": 30, "ACOVERFLOW": 2, "LIST_LOCK": 2}
        # Two drains of twelve went to the shared array of the objects' node, none to the slabs.
        lengths = {array.name: len(array.entries) for array in driver.view(256).arrays}
        assert lengths["shared array of node 0"] == 24
        assert lengths["alien cache of node 1 for node 0"] == 6
    else:
        assert gained == {**both, "LIST_LOCK": 30}
    assert check(driver.kernel, expected_allocated=0) == []


def test_memory_of_a_full_node_comes_from_another() -> None:
    driver = SlabDriver(small_machine(4, 2))
    driver.memory.one(driver.memory.global_address("zones", 0), "zone")["pages_low"] = 1 << 30
    address = driver.alloc(0, 64)
    table = driver.view(64).table
    assert address != 0
    assert table.node.tolist() == [1]
    assert check(driver.kernel, expected_allocated=1) == []
    assert driver.alloc(0, 64, 0) == address + 64  # node 0 is asked for, and has none
    driver.free(0, address)
    assert check(driver.kernel, expected_allocated=1) == []


def test_the_reaper_shrinks_what_is_not_in_use() -> None:
    driver = SlabDriver(small_machine(2))
    for address in [driver.alloc(0, 32) for _ in range(120)]:
        driver.free(0, address)
    array = driver.view(32).arrays[0]
    lengths = [len(array.entries)]
    for _ in range(7):
        driver.run(0, "cache_reap", 0)
        lengths.append(len(driver.view(32).arrays[0].entries))
    # First it only notes that the array was used; then a fifth of the limit at a time, in the end by halves.
    assert lengths == [112, 112, 88, 64, 40, 16, 8, 4]
    assert driver.counters()["REAPED"] == 0
    slabs = len(driver.view(32).table.page_frame)
    for _ in range(20):
        driver.run(0, "timer_tick", 2000)
        driver.run(0, "cache_reap", 0)
    assert driver.counters()["REAPED"] == slabs
    assert len(driver.view(32).table.page_frame) == 0
    assert check(driver.kernel, expected_allocated=0) == []


def test_only_one_cpu_reaps_at_a_time() -> None:
    driver = SlabDriver(small_machine(2))
    for cpu in (0, 1):
        for address in [driver.alloc(cpu, 32) for _ in range(20)]:
            driver.free(cpu, address)
    driver.machine.align_clocks()
    for cpu in (0, 1):
        driver.machine.start(cpu, driver.program.function("cache_reap").index, (cpu,))
    assert driver.machine.run().name == "HALTED"
    touched = [int(driver.array(32, f"CPU {cpu}")["touched"]) for cpu in (0, 1)]
    assert sorted(touched) == [0, 1]  # the second one found the cache chain taken
    assert check(driver.kernel, expected_allocated=0) == []


def test_sizes_that_no_cache_has() -> None:
    driver = SlabDriver(small_machine(1))
    assert driver.alloc(0, 0) == 16  # ZERO_SIZE_PTR
    driver.free(0, 16)
    assert driver.alloc(0, (4096 << 10) + 1) == 0
    assert all(value == 0 for value in driver.counters().values())


@pytest.mark.parametrize("size", [8192, 65536, 1 << 20])
def test_slabs_of_several_pages_go_and_come(size: int) -> None:
    driver = SlabDriver(small_machine(2))
    address = driver.alloc(0, size)
    assert address % size == 0
    assert driver.view(size).table.page_frame.tolist() == [address >> 12]
    assert check(driver.kernel, expected_allocated=1) == []
    driver.free(0, address)
    assert check(driver.kernel, expected_allocated=0) == []


# --- many CPUs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "objects"), [(32, 112), (512, 8), (4096, 1)])
def test_cpus_that_grow_at_once_keep_the_books(size: int, objects: int) -> None:
    made = session(BASE, "D", (size,), 200)
    made.run(1 << 30, stop_at_phase_end=True)
    assert made.fault == ""  # the session has checked all invariants, and that 1600 objects are handed out
    counters = made.results[0].counters
    assert counters["GROWN"] * objects >= 1600
    refills = counters["REFILL_SHARED"] + counters["REFILL_SLABS"]
    assert refills == counters["ALLOC_SLOWPATH"]
    # Each attempt to refill takes the lock once, each slab twice more; every empty attempt makes a slab.
    assert counters["REFILL_EMPTY"] == counters["GROWN"]
    assert counters["LIST_LOCK"] == refills + counters["REFILL_EMPTY"] + 2 * counters["GROWN"]
    made.run_to_end()
    assert check(made.booted, expected_allocated=0) == []


def test_a_slab_is_taken_between_growing_and_retrying() -> None:
    """CPU 0 is held up behind the last unlock of cache_grow; CPU 1 finds the slab, which has one object."""
    driver = SlabDriver(small_machine(2))
    machine = driver.machine
    columns = [L.HARDWARE_COUNTERS + driver.program.counters.index(n) for n in ("REFILL_EMPTY", "GROWN")]
    driver.alloc(0, 64)  # so that CPU 0 has objects for the structures of its slabs
    machine.zero_counts()
    driver.start(0, "test_alloc", 4096, 1)
    while machine.counters()[0, columns[1]] == 0 or machine.cpu_word(0, L.C_HELD):
        machine.step()
    assert driver.listed(4096, 0)["slabs_free"]
    block = machine.cpu_blocks()[0]
    block[L.C_CLOCK] += 10**9
    set_key(machine.state, 0, int(block[L.C_CLOCK]))
    machine.start(1, driver.program.function("test_alloc").index, (4096, 1))
    assert machine.run().name == "HALTED"
    assert machine.counters()[:, columns].tolist() == [[2, 2], [0, 0]]
    assert driver.read_word(driver.kept[0]) != driver.read_word(driver.kept[1])
    assert check(driver.kernel, expected_allocated=3) == []


@pytest.mark.parametrize("machine", [BASE, MACHINES["two_nodes"]])
@pytest.mark.parametrize("tests", ["D", "F"])
def test_a_snapshot_can_be_taken_at_any_moment(tests: str, machine: MachineSpec) -> None:
    made = session(machine, tests, (1024,), 40)
    locks = set()
    slabs = 0
    while not made.finished and not made.fault:
        made.run(211)
        snapshot = made.snapshot()
        table = snapshot.slabs
        locks |= {lock.name.split(" node")[0] for lock in snapshot.locks}
        slabs = max(slabs, len(table.page_frame))
        assert snapshot.cache_name == "size-1024"
        assert len(table.object_state) == int(table.first_object[-1]) == 4 * len(table.page_frame)
        assert (table.cpu == -1).all()
    assert made.fault == ""
    assert slabs >= 70
    assert "list_lock size-1024" in locks


def test_a_quiet_snapshot_says_where_each_object_is() -> None:
    driver = SlabDriver(small_machine(2))
    objects = [driver.alloc(0, 1024) for _ in range(5)]
    driver.free(0, objects[4])
    view = read_cache(driver.kernel, driver.index(1024))
    table = view.table
    states = dict(zip(table.page_frame.tolist(), table.object_state.reshape(-1, 4).tolist(), strict=True))
    # Two refills took the four objects of a slab each; the first slab is handed out, the other one is not.
    assert states == {objects[0] >> 12: [2, 2, 2, 2], objects[4] >> 12: [1, 1, 1, 1]}
    assert sorted(table.state.tolist()) == [0, 2]
    assert table.inuse.tolist() == [4, 4]
    assert table.last_cpu.tolist() == [0, 0]
    assert view.nr_slabs.tolist() == [2]
    assert view.nr_partial.tolist() == [0]


def test_same_input_same_trace_whole_or_in_pieces() -> None:
    runs = []
    for pieces in (None, None, 4999):
        made = session(MACHINES["two_nodes"], "D", (256, 2048), 60)
        while pieces and not made.finished:
            made.run(pieces)
        made.run_to_end()
        runs.append([(r.trace_hash, r.cycles_per_op, r.counters) for r in made.results])
    assert runs[0] == runs[1] == runs[2]


def test_structures_of_32_bit_machines() -> None:
    structs = SlabDriver(replace(small_machine(2), word_bytes=4)).program.structs
    assert structs["slab"].size_bytes == 28
    assert structs["array_cache"].fields["entry"].offset_bytes == 20
    assert structs["kmem_list3"].size_bytes == 64


# --- what is refused -------------------------------------------------------------------------------------


def test_boot_parameters_of_slub_are_refused() -> None:
    with pytest.raises(RequestError, match="boot parameters of SLUB"):
        session(BASE, "A", (64,), 10, slub_max_order=3)
    orders = OrderOptions.default(4096)
    assert FAMILIES["slab"].pages_for(64, 10, BASE, orders) > 0


def in_one_file() -> str:
    """The allocator's files as one text: their descriptions would be statements in the middle of it."""
    texts = [source.text for source in KERNELS["slab"].sources() if source.name.startswith("slab")]
    return "\n".join(text.split('"""', 2)[2] for text in texts)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("REAPTIMEOUT_LIST3", "REAP_INTERVAL", "lacks constant REAPTIMEOUT_LIST3"),
        ("MALLOC_SIZES = 24", "MALLOC_SIZES = 12", "global kmalloc_caches is too small"),
        ("SHARED_ARRAY_BYTES = 512", "SHARED_ARRAY_BYTES = 256", "struct shared_array is too small for 480"),
        ("CPU_ARRAY_BYTES = 128", "CPU_ARRAY_BYTES = 64", "struct cpu_array is too small for 120"),
        ("    colouroff: word\n", "    colouroff: word\n    note: word\n", "struct slab has 56 bytes"),
        ("free_touched", "free_was_touched", "lacks field kmem_list3.free_touched"),
    ],
)
def test_a_kernel_file_that_lacks_something_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    text = in_one_file()
    assert old in text
    path = tmp_path / "mine.py"
    path.write_text(text.replace(old, new), encoding="utf-8")
    job = session_job(SessionSpec("e5345_8p", "slab", "A", (64,), 10, 1))
    mine = replace(job, variant=KernelVariant("mine", "", user_file=path, family="slab"))
    with pytest.raises(UserError) as caught:
        compile_kernel(mine)
    assert "\n" not in str(caught.value)
    assert complaint in str(caught.value)


def test_a_copy_in_one_file_is_the_same_kernel(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(in_one_file(), encoding="utf-8")
    job = session_job(SessionSpec("e5345_8p", "slab", "A", (64,), 10, 1))
    booted = boot(replace(job, variant=KernelVariant("mine", "", user_file=path, family="slab")))
    assert check(booted, expected_allocated=0) == []
