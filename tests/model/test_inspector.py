"""What the inspector says of objects, slabs, lists, locks and CPUs comes true."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState
from slubviz.model.errors import UserError
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.travel.inspector import (
    CpuTarget,
    Inspection,
    ListTarget,
    LockTarget,
    ObjectTarget,
    SlabTarget,
    find_target,
    inspect,
    known_targets,
    target_at,
    with_history,
)
from slubviz.model.travel.object_history import ObjectEvent
from slubviz.model.travel.places import slab_at
from slubviz.model.travel.recording import Recording
from tests.model.handler_bench import HandlerBench

KERNELS = ("slub", "slub+", "slub-seq", "slub-2.6.25", "slab", "slub-cpu-partial")


def row(inspection: Inspection, name: str) -> str:
    return next(row.value for row in inspection.rows if row.name == name)


def objects(bench: HandlerBench, cpu: int, count: int) -> list[int]:
    """Pointers that the tests keep for a CPU."""
    base = bench.kernel.memory.global_address("objects", cpu)
    word = bench.program.target.word_bytes
    return [bench.machine.read(base + word * i, word) for i in range(count)]


def top_list(bench: HandlerBench, cpu: int) -> Inspection:
    """What a CPU hands out from next."""
    names = known_targets(bench.kernel)
    name = (
        f"size-64 array of CPU {cpu}"
        if "size-64 array of CPU 0" in names
        else f"kmalloc-64 cpu slab of CPU {cpu}"
    )
    return inspect(bench.session, names[name])


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_first_of_a_list_is_handed_out_next(kernel):
    bench = HandlerBench(kernel, cpus=2)
    for count in (5, 1, 7):
        bench.run(0, "test_alloc", 64, count)
        kept = objects(bench, 0, count)
        for address in kept:
            assert row(inspect(bench.session, ObjectTarget(address)), "state") == "allocated"
            assert target_at(bench.session, address + 8) == ObjectTarget(address + 8)
        following = next(r for r in top_list(bench, 0).rows if isinstance(r.link, ObjectTarget)).link
        state = row(inspect(bench.session, following), "state")
        assert state.startswith("free, ")
        assert ", number 1 of " in state
        bench.run(0, "test_alloc", 64, 1)
        assert objects(bench, 0, 1) == [following.address]
        bench.run(0, "test_free", 0, 1, 1)
        freed = inspect(bench.session, following)
        assert row(freed, "state") == state  # it is the first one again
        assert (
            freed.title
            == f"object {row_index(bench, following.address)} of slab {slab(bench, following)}"
            + (" (size-64)" if kernel == "slab" else " (kmalloc-64)")
        )


def row_index(bench: HandlerBench, address: int) -> int:
    found = slab_at(bench.kernel, address)
    assert found is not None
    return (address - found.first_object) // 64


def slab(bench: HandlerBench, target: ObjectTarget) -> int:
    found = slab_at(bench.kernel, target.address)
    assert found is not None
    return found.page_frame


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_remote_free_goes_to_the_slab_or_array(kernel):
    bench = HandlerBench(kernel, cpus=2)
    bench.run(0, "test_alloc", 64, 3)
    first = objects(bench, 0, 3)[0]
    bench.run(1, "test_free", 0, 1, 1)
    state = row(inspect(bench.session, ObjectTarget(first)), "state")
    frame = first >> 12
    if kernel == "slab":
        assert state == "free, in the array of CPU 1, number 1 of 1"
        return
    assert state == "free, on the slab's freelist, number 1 of 1"
    shown = inspect(bench.session, SlabTarget(frame))
    assert row(shown, "own freelist") == f"1: {row_index(bench, first)}"
    assert row(shown, "where") == "cpu slab of CPU 0"
    assert row(shown, "allocated").startswith("2 of ")


@pytest.mark.parametrize("kernel", ["slub", "slab", "slub-cpu-partial"])
def test_full_and_partial_slabs_are_found_on_their_lists(kernel):
    bench = HandlerBench(kernel, cpus=2)
    bench.run(0, "test_alloc", 256, 60)
    kept = objects(bench, 0, 60)
    first = kept[0] >> 12
    of_first = [address for address in kept if address >> 12 == first]
    full = inspect(bench.session, SlabTarget(first))
    assert row(full, "state") == "full"
    assert row(full, "allocated").startswith(f"{len(of_first)} of {len(of_first)};")
    where = next(r for r in full.rows if r.name == "where")
    if kernel == "slab":
        assert where.value.startswith("slabs_full list of size-256 node 0, number ")
        assert SlabTarget(first) in [r.link for r in inspect(bench.session, where.link).rows]
        return
    assert where.value == "on no list"
    # Free every object of the first slab but one from another CPU.
    for i, address in enumerate(of_first[:-1]):
        bench.machine.write(bench.kernel.memory.global_address("objects", 0) + 8 * i, address)
    bench.run(1, "test_free", 0, 1, len(of_first) - 1)
    partial = inspect(bench.session, SlabTarget(first))
    assert row(partial, "state").startswith("partly used")
    assert row(partial, "allocated").startswith("1 of ")
    where = next(r for r in partial.rows if r.name == "where")
    expected = {
        "slub": "partial list of kmalloc-256 node 0, number 1 of 1",
        "slub-cpu-partial": "on the partial chain of CPU 1",
    }
    assert where.value == expected[kernel]
    assert SlabTarget(first) in [r.link for r in inspect(bench.session, where.link).rows]


@pytest.mark.parametrize("kernel", KERNELS)
def test_everything_that_has_a_name_can_be_inspected_at_any_moment(kernel):
    recording = Recording(Session(SessionSpec("ia64_8p_4n", kernel, "F", (64,), ops=40, seed=1, cpus=8)))
    recording.boot()
    recording.run(10**6)
    names = known_targets(recording.session.booted)
    assert len(names) > 100

    @settings(max_examples=2)
    @given(st.integers(0, recording.end - 1))
    def check(position: int) -> None:
        recording.seek(position, prepare=False)
        session = recording.session
        for name, target in names.items():
            found = inspect(session, target)
            assert found.target == target
            assert found.title
            assert found.rows
            if "64" in name or "CPU" in name[:3]:
                assert find_target(session, name.upper()) == target
                for one in found.rows:
                    if one.link is not None:
                        assert inspect(session, one.link).rows

    check()


def test_locks_with_holder_and_waiters():
    recording = Recording(Session(SessionSpec("e5345_8p", "slab", "E", (64,), ops=40, seed=1, cpus=8)))
    recording.boot()
    recording.run(10**6)
    for position in range(0, recording.end, 101):
        recording.seek(position, prepare=False)
        blocks = recording.session.machine.cpu_blocks()
        waiting = [c for c in range(8) if blocks[c, L.C_STATE] == CpuState.WAITING_LOCK]
        if len({int(blocks[c, L.C_WAIT_ADDRESS]) for c in waiting}) == 1 and len(waiting) > 2:
            break
    else:
        raise AssertionError("nobody ever waits")
    session = recording.session
    address = int(blocks[waiting[0], L.C_WAIT_ADDRESS])
    shown = inspect(session, LockTarget(address))
    holder = next(r for r in shown.rows if r.name == "held by")
    if isinstance(holder.link, CpuTarget):
        assert LockTarget(address) in [r.link for r in inspect(session, holder.link).rows]
    queue = [r.link.cpu for r in shown.rows if r.name.startswith("waiting")]
    since = {c: int(blocks[c, L.C_WAIT_SINCE]) for c in waiting}
    assert queue == sorted(waiting, key=lambda c: (since[c], c))
    of_waiter = inspect(session, CpuTarget(waiting[0]))
    assert of_waiter.rows[0].link == LockTarget(address)
    assert find_target(session, shown.title) == LockTarget(address)
    assert target_at(session, address) == LockTarget(address)


def test_an_object_with_its_history():
    bench = HandlerBench("slub", cpus=2)
    bench.run(0, "test_alloc", 64, 1)
    shown = inspect(bench.session, ObjectTarget(objects(bench, 0, 1)[0]))
    events = (
        ObjectEvent(10, 5.0, 0, True, "kmalloc", "test_alloc", False),
        ObjectEvent(20, 9.0, 1, False, "kfree", "irq_free", True),
        ObjectEvent(30, 12.0, 0, True, "kmalloc", "later", False),
    )
    for position, allocated, freed in ((25, 10, 20), (15, 10, None), (40, 30, 20)):
        rows = {r.name: r for r in with_history(shown, events, position).rows}
        assert rows["allocated last"].position == allocated
        assert rows["freed last"].position == freed
    rows = {r.name: r for r in with_history(shown, events, 25).rows}
    assert rows["allocated last"].value == "by test_alloc on CPU 0, cycle 5 (kmalloc)"
    assert rows["freed last"].value == "by irq_free on CPU 1 in an interrupt, cycle 9 (kfree)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "what shall be inspected?"),
        ("1", "page frame '1' is of no slab now"),
        ("9" * 40, "is of no slab now"),
        ("0x10", "nothing to inspect at 0x10: no memory"),
        ("0xffffffffffffffff", "nothing to inspect at 0xffffffffffffffff: no memory"),
        ("cpu 2", "CPU 2 does not exist; this machine has CPUs 0 to 1"),
        ("zone->lok node 0", "did you mean zone->lock node 0?"),
        ("\x00\n", "unknown thing to inspect"),
    ],
)
def test_what_is_not_there_is_told_in_one_line(text, says):
    bench = HandlerBench("slub", cpus=2)
    with pytest.raises(UserError) as error:
        find_target(bench.session, text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_targets_by_number_and_address():
    bench = HandlerBench("slub", cpus=2)
    bench.run(0, "test_alloc", 64, 2)
    address = objects(bench, 0, 2)[1]
    frame, index = address >> 12, (address & 4095) // 64
    assert find_target(bench.session, f"{frame}/{index}") == ObjectTarget(address)
    assert find_target(bench.session, f" object {frame} / {index} ") == ObjectTarget(address)
    assert find_target(bench.session, f"slab {frame}") == SlabTarget(frame)
    assert find_target(bench.session, f"{address:#x}") == ObjectTarget(address)
    page = bench.kernel.memory.global_address("mem_map") + frame * bench.program.struct("page").size_bytes
    assert target_at(bench.session, page) == SlabTarget(frame)
    with pytest.raises(UserError, match="has objects 0 to 63"):
        find_target(bench.session, f"{frame}/64")
    with pytest.raises(UserError, match="there is no list at"):
        inspect(bench.session, ListTarget(address))
    with pytest.raises(UserError, match="there is no lock at 0x3: no memory"):
        inspect(bench.session, LockTarget(3))
    with pytest.raises(UserError, match="there is no object at 0x0: no memory"):
        inspect(bench.session, ObjectTarget(0))
