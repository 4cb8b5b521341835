"""SLUB with a sequence number in the freelist word: how it counts, where it wraps, what its rules are for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from slubviz.hw.isa import F_OP, WORDS, Op, Status
from slubviz.model.errors import UserError
from slubviz.model.invariants import check
from slubviz.model.machines import load_machine
from slubviz.model.slub_view import cpu_freelists
from tests.model.driver import Driver
from tests.model.test_interrupts import LARGE, SIZE, Scene

KERNEL = "slub-seq"
SMALL = 64  # 64 objects in a slab: a freelist that many interrupts do not use up
ONE_PAGE = {"slub_max_order": 0}  # four objects of SIZE in a slab
HALF = 32


def sequence(driver: Driver, size: int, cpu: int = 0) -> int:
    """The sequence number of a CPU's freelist."""
    return int(driver.cpu_slab(cpu, size)["freelist"]) >> HALF


def set_sequence(driver: Driver, size: int, number: int) -> None:
    """Give CPU 0's freelist another sequence number."""
    slab = driver.cpu_slab(0, size)
    slab["freelist"] = number << HALF | int(slab["freelist"]) & (1 << HALF) - 1


def alloc_scene(driver: Driver, size: int, objects: int, number: int) -> Scene:
    """CPU 0 is about to allocate, has ``objects`` objects of its slab in use and this sequence number."""
    for _ in range(objects):
        driver.alloc(0, size)
    set_sequence(driver, size, number)
    scene = Scene(driver, objects + 1, "test_alloc", size, 1)
    scene.handler_size = size
    return scene


def places_that_break(scene: Scene, handlers: Iterable[str]) -> list[int]:
    """Places of the operation where these interrupts, one after the other, break an invariant."""
    program, broken = scene.driver.program, []
    for offset in scene.places():
        scene.machine.restore_state(scene.checkpoint)
        for handler in handlers:
            function = program.function(handler).index
            scene.machine.inject(0, function, scene.handler_size, at_micro_op=scene.first + offset)
        assert scene.machine.run() == Status.HALTED
        if scene.broken():
            broken.append(offset)
    return broken


def lines_of(scene: Scene, offsets: Iterable[int]) -> set[str]:
    """Source lines of the micro-ops at these places."""
    program = scene.driver.program
    pcs, _ = scene.trace()
    spans = [program.span(pcs[offset]) for offset in offsets]
    return {program.sources[span.file].splitlines()[span.line - 1].strip() for span in spans}


def window(scene: Scene) -> list[int]:
    """Places between the read of the first object's successor and the exchange."""
    ops = scene.driver.program.code.reshape(-1, WORDS)[:, F_OP]
    pcs, _ = scene.trace()
    (read,) = [at for at in scene.places() if lines_of(scene, [at]) == {"following = object.next"}]
    (exchange,) = [at for at in scene.places() if ops[pcs[at]] == Op.CMPXCHG_LOCAL]
    return list(range(read + 1, exchange + 1))


def test_a_spoilt_exchange_is_tried_again() -> None:
    scene = alloc_scene(Driver(KERNEL, 2), SMALL, 3, 100)
    (attempt,) = [at for at in scene.places() if lines_of(scene, [at]) == {"following = object.next"}]
    scene.machine.restore_state(scene.checkpoint)
    before = scene.driver.all_counters()["ALLOC_FASTPATH"]
    assert scene.interrupt(attempt, "irq_alloc") == Status.HALTED
    # The interrupt's own; the spoilt attempt, counted before the exchange as in the mail; the second one.
    assert scene.driver.all_counters()["ALLOC_FASTPATH"] - before == 3
    assert sequence(scene.driver, SMALL) == 102
    assert scene.broken() == []


# --- counting -------------------------------------------------------------------------------------


def test_every_change_of_the_freelist_counts_one() -> None:
    driver = Driver(KERNEL, 2)
    first = sequence(driver, SMALL)
    objects = [driver.alloc(0, SMALL)]  # a new slab: set once
    assert sequence(driver, SMALL) == first + 1
    objects += [driver.alloc(0, SMALL) for _ in range(5)]
    assert sequence(driver, SMALL) == first + 6
    for address in objects:
        driver.free(0, address)
    assert sequence(driver, SMALL) == first + 12
    assert driver.counters()["FREE_FASTPATH"] == 6
    driver.free(1, driver.alloc(0, SMALL))  # a remote free leaves the CPU's freelist alone
    assert sequence(driver, SMALL) == first + 13


def test_the_last_object_of_a_slab_takes_the_fast_path_and_comes_back_by_it() -> None:
    driver = Driver(KERNEL, 2, **ONE_PAGE)
    objects = [driver.alloc(0, SIZE) for _ in range(4)]
    assert driver.counters()["ALLOC_FASTPATH"] == 3
    for address in objects[:2]:  # the first is linked to the end under the slab's base
        driver.free(0, address)
        assert check(driver.kernel, expected_allocated=None) == []
    assert driver.counters()["FREE_FASTPATH"] == 2
    assert driver.alloc(0, SIZE) == objects[1]
    assert driver.alloc(0, SIZE) == objects[0]
    assert driver.counters()["ALLOC_FASTPATH"] == 5
    assert check(driver.kernel, expected_allocated=4) == []


def test_an_object_is_not_freed_the_fast_way_to_a_list_that_the_slow_path_left_empty() -> None:
    driver = Driver(KERNEL, 2, **ONE_PAGE)
    objects = [driver.alloc(0, SIZE) for _ in range(4)]
    driver.free(1, objects[2])
    assert driver.alloc(0, SIZE) == objects[2]  # a refill with one object: the list is set to its end
    assert driver.counters()["ALLOC_REFILL"] == 1
    driver.free(0, objects[0])
    assert driver.counters()["FREE_FASTPATH"] == 0
    assert driver.counters()["FREE_FROZEN"] == 2
    assert check(driver.kernel, expected_allocated=3) == []


def test_by_the_letter_the_last_object_of_a_slab_takes_the_slow_path() -> None:
    """Its link, the end, has another base: the slab is given up with it and taken from the list again."""
    driver = Driver(KERNEL, 2, **ONE_PAGE, LAST_OBJECT_SLOW=1)
    objects = [driver.alloc(0, SIZE) for _ in range(4)]
    assert len({address >> 12 for address in objects}) == 1
    counters = driver.counters()
    assert (counters["ALLOC_FASTPATH"], counters["ALLOC_SLOWPATH"]) == (2, 2)
    assert (counters["DEACTIVATE_TO_HEAD"], counters["ALLOC_FROM_PARTIAL"]) == (1, 1)
    # Nor is an object freed the fast way to the empty list.
    driver.free(0, objects[0])
    assert driver.counters()["FREE_FROZEN"] == 1
    assert driver.alloc(0, SIZE) == objects[0]
    assert driver.counters()["ALLOC_REFILL"] == 1


def test_a_32_bit_machine_has_16_bits_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(load_machine("e5345_8p"), word_bytes=4, cpus=1)
    monkeypatch.setattr("tests.model.driver.load_machine", lambda name: short)
    driver = Driver(KERNEL, 2)
    constants = driver.program.constants
    assert (constants["SEQUENCE_MASK"], constants["OFFSET_MASK"]) == (0xFFFF0000, 0xFFFF)
    assert driver.program.options["SEQUENCE_BITS"].value == 16
    struct = driver.program.struct("kmem_cache_cpu")
    assert struct.fields["base"].offset_bytes == 8
    first = []
    for _ in range(3):
        driver.alloc(0, SMALL)
        first.append(driver.machine.read(driver.kept[0], 4))
    slab = driver.cpu_slab(0, SMALL)
    assert int(slab["base"]) == first[0] & ~0xFFFF
    assert int(slab["freelist"]) & 0xFFFF == (first[2] + SMALL) & 0xFFFF
    assert int(cpu_freelists(driver.kernel, driver.index(SMALL))[0]) == first[2] + SMALL
    slab["freelist"] = 0xFFFE << 16 | int(slab["freelist"]) & 0xFFFF
    driver.alloc(0, SMALL)
    assert int(driver.cpu_slab(0, SMALL)["freelist"]) >> 16 == 0xFFFF
    driver.alloc(0, SMALL)  # at the maximum: slow, given up (0) and loaded again (1)
    assert int(driver.cpu_slab(0, SMALL)["freelist"]) >> 16 == 1
    assert check(driver.kernel, expected_allocated=5) == []


@pytest.mark.parametrize("bits", [3, 33])
def test_a_width_out_of_range_is_refused(bits: int) -> None:
    with pytest.raises(UserError, match=f"SEQUENCE_BITS goes from 4 to 32, not {bits}"):
        Driver(KERNEL, 2, SEQUENCE_BITS=bits)


# --- wrapping -------------------------------------------------------------------------------------


def nested(increments: int) -> list[str]:
    """Handlers that change the freelist so many times and leave the head with another successor."""
    swaps = 2 if increments % 2 == 0 else 1  # three changes each
    return ["irq_alloc_alloc_free_first"] * swaps + ["irq_alloc_free"] * ((increments - 3 * swaps) // 2)


@pytest.mark.parametrize("increments", [8, 13, 14, 15, 16, 17, 18, 24, 31, 32, 33, 48])
def test_an_unguarded_4_bit_number_misses_16_changes_and_no_others(increments: int) -> None:
    """Whole turns of the counter, with the head as it was, cannot be told from no change at all."""
    scene = alloc_scene(Driver(KERNEL, 2, SEQUENCE_BITS=4, OVERFLOW_CHECK=0), SMALL, 3, 5)
    broken = places_that_break(scene, nested(increments))
    assert bool(broken) == (increments % 16 == 0)
    if broken:
        assert broken == window(scene)


@pytest.mark.parametrize("start", range(16))
@pytest.mark.parametrize("increments", [16, 32])
def test_with_the_slow_path_at_the_maximum_no_turn_is_missed(increments: int, start: int) -> None:
    scene = alloc_scene(Driver(KERNEL, 2, SEQUENCE_BITS=4), SMALL, 3, start)
    assert places_that_break(scene, nested(increments)) == []


def test_the_same_turns_are_caught_by_a_wider_number() -> None:
    for bits in (5, 8, 16, 32):
        scene = alloc_scene(Driver(KERNEL, 2, SEQUENCE_BITS=bits, OVERFLOW_CHECK=0), SMALL, 3, 5)
        assert places_that_break(scene, nested(16)) == [], bits


@pytest.mark.parametrize(("check_overflow", "after"), [(1, 15), (0, 0)])
def test_an_interrupt_keeps_the_maximum(check_overflow: int, after: int) -> None:
    driver = Driver(KERNEL, 2, SEQUENCE_BITS=4, OVERFLOW_CHECK=check_overflow)
    for _ in range(3):
        driver.alloc(0, SMALL)
    set_sequence(driver, SMALL, 15)
    driver.start(0, "test_alloc", 2 * LARGE, 1)  # the page allocator's; not the freelist's concern
    driver.machine.inject(0, driver.program.function("irq_alloc").index, SMALL)
    assert driver.machine.run() == Status.HALTED
    assert sequence(driver, SMALL) == after
    assert check(driver.kernel, expected_allocated=4) == []


def test_a_task_at_the_maximum_wraps_in_the_slow_path() -> None:
    driver = Driver(KERNEL, 2, SEQUENCE_BITS=4)
    objects = [driver.alloc(0, SMALL) for _ in range(3)]
    set_sequence(driver, SMALL, 15)
    slow = driver.counters()["ALLOC_SLOWPATH"]
    objects.append(driver.alloc(0, SMALL))
    assert driver.counters()["ALLOC_SLOWPATH"] == slow + 1
    assert sequence(driver, SMALL) == 1  # given up: 0; loaded again: 1
    set_sequence(driver, SMALL, 15)
    frozen = driver.counters()["FREE_FROZEN"]
    driver.free(0, objects.pop())
    assert driver.counters()["FREE_FROZEN"] == frozen + 1
    assert sequence(driver, SMALL) == 15  # the slab's own freelist took it
    assert check(driver.kernel, expected_allocated=3) == []


@pytest.mark.parametrize("small_error", [0, 1])
def test_the_small_error(small_error: int) -> None:
    """At the maximum a task reads (MAX, C) and C's successor D.  An interrupt allocates: all go the slow way
    now, so both objects are given back and come again in the other order: D is the interrupt's, the word is
    (MAX, C) again.  A task that wraps the number itself then makes D, which is in use, the head.
    """
    scene = alloc_scene(Driver(KERNEL, 2, **ONE_PAGE, SEQUENCE_BITS=4, SMALL_ERROR=small_error), SIZE, 2, 15)
    broken = places_that_break(scene, ["irq_alloc"])
    assert bool(broken) == bool(small_error)
    if small_error:
        assert broken == window(scene)
        scene.interrupt(broken[0], "irq_alloc")
        held = scene.driver.memory.field_address(
            scene.driver.memory.global_address("held", 0), "held_objects", "of"
        )
        head = int(cpu_freelists(scene.driver.kernel, scene.driver.index(SIZE))[0])
        assert head == scene.machine.read(held)


@pytest.mark.parametrize("handlers", [("irq_alloc", "irq_alloc_free", "irq_alloc"), ("irq_alloc",) * 2])
@pytest.mark.parametrize("objects", [1, 2, 3])
def test_without_the_small_error_the_maximum_is_safe(objects: int, handlers: tuple[str, ...]) -> None:
    for number in (14, 15):
        scene = alloc_scene(Driver(KERNEL, 2, **ONE_PAGE, SEQUENCE_BITS=4), SIZE, objects, number)
        assert places_that_break(scene, handlers) == []


# --- the refill that loses objects ----------------------------------------------------------------


@pytest.mark.parametrize("loses", [0, 1])
def test_a_refill_with_an_object_left_loses_it_if_asked_to(loses: int) -> None:
    """CPU 0 has one object left, another CPU frees one to its slab: the last one goes the slow way."""
    driver = Driver(KERNEL, 2, **ONE_PAGE, LAST_OBJECT_SLOW=1, LOSES_LOCAL_OBJECTS=loses)
    objects = [driver.alloc(0, SIZE) for _ in range(3)]
    driver.free(1, objects.pop(0))
    objects.append(driver.alloc(0, SIZE))
    problems = check(driver.kernel, expected_allocated=len(objects))
    assert problems == (["4 objects are handed out, 3 should be"] if loses else [])


# --- what the invariants see ----------------------------------------------------------------------


def damaged(damage: str) -> list[str]:
    """Problems of a machine whose CPU 0 has two objects on its freelist, after something was written."""
    driver = Driver(KERNEL, 2)
    objects = [driver.alloc(0, SIZE) for _ in range(2)]
    slab = driver.cpu_slab(0, SIZE)
    last = objects[0] + 3 * SIZE
    if damage == "base":
        slab["base"] = 1 << HALF
    elif damage == "offset":
        slab["freelist"] = int(slab["freelist"]) + 8
    elif damage == "end under another base":
        driver.machine.write(last, 5 << HALF | 1)
    elif damage == "NULL as the end":
        driver.machine.write(last, 0)
    elif damage == "a list without a slab":
        slab["page"] = 0
    return check(driver.kernel, expected_allocated=2)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("base", "leads out of the slab"),
        ("offset", "leads out of the slab or is misaligned"),
        ("end under another base", "does not end in the slab's own end"),
        ("NULL as the end", "does not end in the slab's own end"),
        ("a list without a slab", "has a freelist without a slab"),
    ],
)
def test_damage_is_reported(damage: str, problem: str) -> None:
    assert damaged("none") == []
    assert any(problem in found for found in damaged(damage))
