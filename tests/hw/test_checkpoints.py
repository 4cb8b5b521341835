"""Checkpoints: every kept state comes back exactly, whatever was added, dropped and restored between."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import checkpoints
from slubviz.hw.checkpoints import PAGE_BYTES, PAGE_WORDS, CheckpointPool, PoolFull, copied_state, used_pages


def random_state(random: np.random.Generator, pages: int, rest: int) -> np.ndarray:
    state = np.zeros(pages * PAGE_WORDS + rest, dtype=np.int64)
    for page in range(pages):
        if random.random() < 0.6:
            state[page * PAGE_WORDS + int(random.integers(PAGE_WORDS))] = int(random.integers(1, 1 << 60))
    state[pages * PAGE_WORDS :] = random.integers(0, 3, rest)
    return state


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.lists(st.integers(0, 5), min_size=5, max_size=40), st.booleans())
def test_states_come_back_whatever_happens_between(seed, moves, sparse):
    random = np.random.default_rng(seed)
    rests = int(random.integers(0, PAGE_WORDS))
    state = random_state(random, 8, rests)
    with pytest.MonkeyPatch.context() as patch:
        if sparse:
            patch.setattr(checkpoints, "SPARSE_BYTES", 0)
        pool = CheckpointPool(64 * PAGE_BYTES, state)
        kept: list[tuple[checkpoints.Checkpoint, np.ndarray]] = []
        for move in moves:
            if move == 0 and kept:
                pool.drop(kept.pop(int(random.integers(len(kept))))[0])
            elif move == 1 and kept:
                one, expected = kept[int(random.integers(len(kept)))]
                state = pool.restore(one, state)
                np.testing.assert_array_equal(state, expected)
            elif move == 2:  # the store grows
                state = np.concatenate([state, np.zeros(int(random.integers(1, 3 * PAGE_WORDS)), np.int64)])
            else:
                state[int(random.integers(len(state)))] = int(random.integers(0, 4))
                try:
                    kept.append((pool.add(state), state.copy()))
                except PoolFull:
                    assert pool.used_bytes > 20 * PAGE_BYTES
            assert pool.used_bytes <= pool.budget_bytes or not kept
        for one, expected in kept:
            state = pool.restore(one, state)
            np.testing.assert_array_equal(state, expected)
            pool.drop(one)


def test_pages_that_did_not_change_are_kept_once():
    state = np.arange(64 * PAGE_WORDS, dtype=np.int64)
    pool = CheckpointPool(1 << 30, state)
    pool.add(state)
    before = pool.used_bytes
    for word in (0, 5 * PAGE_WORDS, 5 * PAGE_WORDS + 1):
        state[word] += 1
    pool.add(state)
    assert pool.used_bytes == before + 2 * PAGE_BYTES


def test_a_full_pool_says_so_and_is_as_it_was():
    state = np.arange(4 * PAGE_WORDS, dtype=np.int64)
    pool = CheckpointPool(0, state)
    first = pool.add(state)
    state += 1
    pool.add(state)
    state += 1
    used = pool.used_bytes
    with pytest.raises(PoolFull):
        pool.add(state)
    assert pool.used_bytes == used
    np.testing.assert_array_equal(pool.restore(first, state), np.arange(4 * PAGE_WORDS))


def test_what_is_untouched_in_a_large_state_is_not_copied(monkeypatch):
    monkeypatch.setattr(checkpoints, "SPARSE_BYTES", 0)
    written: list[int] = []
    real = checkpoints.copy_used_pages
    state = np.zeros(10 * PAGE_WORDS + 7, dtype=np.int64)
    state[3 * PAGE_WORDS + 2] = 9
    state[-1] = 4
    monkeypatch.setattr(checkpoints, "copy_used_pages", lambda a, b: (written.append(len(a)), real(a, b)))
    np.testing.assert_array_equal(copied_state(state), state)
    assert written == [10]
    assert used_pages(state) == 2
