"""Random operations of lockless SLUB, step for step beside the oracle, with all invariants after each."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.model.lockless import SIZES, Pair, Shape, pair
from tests.oracle.lockless import PRIVATE, Place, together

#: Small slabs, few kept, so that slabs are given back often.
SMALL = Shape(cpus=3, min_objects=4, max_order=1, min_partial=1)
SMALL_NUMA = Shape(cpus=4, nodes=2, min_objects=4, max_order=1, min_partial=1)
#: Kernel, its options, and what the oracle must be for it.
VARIANTS: dict[str, tuple[str, dict[str, int], dict[str, object]]] = {
    "3.6": ("slub-cpu-partial", {}, {}),
    "3.5": ("slub-cpu-partial", {"UNFREEZE_REWRITE": 0}, {"locks_first": False}),
    "3.1": ("slub-cpu-partial", {"CPU_PARTIAL": 0}, {"chains": False}),
    "3.6 preemptible": ("slub-cpu-partial", {"CONFIG_PREEMPT": 1}, {}),
    "3.6 without the instruction": ("slub-cpu-partial", {"HAVE_CMPXCHG_DOUBLE": 0}, {}),
    "4.3": ("slub-bulk", {}, {"late": True, "bulk": 1}),
    "4.3 fallback": ("slub-bulk", {"BULK": 0}, {"late": True, "bulk": 0}),
    "4.4": ("slub-bulk", {"BULK": 2}, {"late": True, "bulk": 2}),
    "4.3 with the fix of 2020": (
        "slub-bulk",
        {"BULK_ALLOC_TID": 1},
        {"late": True, "bulk": 1, "bulk_alloc_tid": True},
    ),
}
Step = tuple[str, int, int, int, int | None]


def steps(cpus: int, nodes: int) -> st.SearchStrategy[list[Step]]:
    """What, CPU, size, which object to free, node asked for.  Frees pile up, so that chains get long."""
    node = st.one_of(st.none(), st.integers(0, nodes - 1)) if nodes > 1 else st.none()
    what = st.sampled_from(["alloc", "alloc", "alloc", "free", "free", "fill", "flush"])
    one = st.tuples(what, st.integers(0, cpus - 1), st.sampled_from(SIZES), st.integers(0, 10**6), node)
    return st.lists(one, max_size=50)


def run(both: Pair, operations: list[Step]) -> None:
    for what, cpu, size, pick, node in operations:
        if what == "flush":
            both.flush(cpu, size)
        elif what == "fill":
            for _ in range(1 + pick % 9):
                both.alloc(cpu, size, node)
        elif what == "alloc" or not both.live:
            both.alloc(cpu, size, node)
        else:
            both.free(cpu, pick)
        both.compare()


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "4.3 with the fix of 2020"])
@settings(max_examples=5, deadline=None, derandomize=True)
@given(operations=steps(3, 1))
def test_every_operation_agrees_with_the_oracle(variant: str, operations: list[Step]) -> None:
    kernel, options, changes = VARIANTS[variant]
    run(pair(kernel, replace(SMALL, **changes), **options), operations)


@pytest.mark.parametrize("search_remote", [False, True])
@pytest.mark.parametrize("variant", ["3.6", "3.5", "3.1", "4.3"])
@settings(max_examples=5, deadline=None, derandomize=True)
@given(operations=steps(4, 2))
def test_every_operation_on_two_nodes_agrees_with_the_oracle(
    variant: str, search_remote: bool, operations: list[Step]
) -> None:
    kernel, options, changes = VARIANTS[variant]
    shape = replace(SMALL_NUMA, search_remote=search_remote, **changes)
    run(pair(kernel, shape, **options), operations)


@pytest.mark.parametrize("variant", ["4.3", "4.3 fallback", "4.4", "4.3 with the fix of 2020"])
@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    operations=st.lists(
        st.tuples(
            st.sampled_from(["alloc", "free", "one", "one back"]),
            st.integers(0, 2),
            st.sampled_from([1024, 4096, PRIVATE]),
            st.lists(st.integers(0, 10**6), min_size=1, max_size=12),
        ),
        max_size=20,
    )
)
def test_bulk_operations_agree_with_the_oracle(
    variant: str, operations: list[tuple[str, int, int | str, list[int]]]
) -> None:
    kernel, options, changes = VARIANTS[variant]
    both = pair(kernel, replace(SMALL, **changes), sizes=(1024, 4096, PRIVATE), **options)
    for what, cpu, size, picks in operations:
        if what == "alloc":
            both.alloc_bulk(cpu, size, len(picks))
        elif what == "free":
            both.free_bulk(cpu, size, picks)
        elif what == "one":
            both.alloc(cpu, 1024)
        elif both.live:
            both.free(cpu, picks[0])
        both.compare()


@pytest.mark.parametrize(
    ("slabs", "groups"),
    [
        ("", []),
        ("a", ["a"]),
        ("aaa", ["aaa"]),
        ("aba", ["aa", "b"]),
        ("abba", ["aa", "bb"]),
        ("abcba", ["a", "bb", "c", "a"]),  # the second b ends the search for a
        ("aabbba", ["a", "bbb", "aa"]),  # the third b ends the search for a
        ("abcdabcd", ["d", "c", "b", "a", "d", "c", "b", "a"]),
        ("abcabc", ["cc", "bb", "aa"]),
    ],
)
def test_how_the_bulk_free_of_4_4_groups(slabs: str, groups: list[str]) -> None:
    places = [Place(ord(slab), i) for i, slab in enumerate(slabs)]
    made = ["".join(chr(place.slab) for place in group) for group in together(places)]
    assert made == groups
