"""SLAB: random allocations, frees and runs of the reaper on random CPUs and nodes, step for step beside the
oracle: array contents, chains, lists in their order, counters, and all invariants after each."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.model.slab_pair import SlabPair, pair

#: Few objects per slab and short arrays, so that every case of the slow paths comes up often.
SIZES = (256, 1024, 2048, 4096)
Step = tuple[str, int, int, int, int, "int | None"]


def operations(cpus: int, nodes: int, most: int) -> st.SearchStrategy[list[Step]]:
    """What, CPU, size, how often, which objects to free or ticks, node asked for."""
    node = st.one_of(st.none(), st.integers(0, nodes - 1)) if nodes > 1 else st.none()
    one = st.tuples(
        st.sampled_from(("alloc", "alloc", "free", "free", "reap")),
        st.integers(0, cpus - 1),
        st.sampled_from(SIZES),
        st.integers(1, 40),
        st.integers(0, 10**6),
        node,
    )
    return st.lists(one, max_size=most)


def run(both: SlabPair, steps: list[Step]) -> None:
    for what, cpu, size, times, pick, node in steps:
        for _ in range(times if what != "reap" else 1):
            if what == "alloc":
                both.alloc(cpu, size, node)
            elif what == "free" and both.live:
                both.free(cpu, pick)
            elif what == "reap":
                both.reap(cpu, pick % 3000)
        both.compare()


@settings(max_examples=8, deadline=None, derandomize=True)
@given(steps=operations(3, 1, 14))
def test_every_operation_agrees_with_the_oracle(steps: list[Step]) -> None:
    run(pair(3), steps)


@pytest.mark.parametrize("alien_caches", [True, False])
@settings(max_examples=6, deadline=None, derandomize=True)
@given(steps=operations(4, 2, 12))
def test_every_operation_on_two_nodes_agrees_with_the_oracle(alien_caches: bool, steps: list[Step]) -> None:
    run(pair(4, 2, alien_caches=alien_caches), steps)
