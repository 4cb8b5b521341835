"""Texts of numbers, the speed scale and the pacer."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.views import numbers, speed
from slubviz.views.speed import Pacer

THIN = "\u202f"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, f"1{THIN}000"),
        (1234567, f"1{THIN}234{THIN}567"),
        (-4200, f"−4{THIN}200"),
    ],
)
def test_integer(value: int, text: str) -> None:
    assert numbers.integer(value) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("36,908", f"36{THIN}908"),
        ("1,234,567.5 of -4,200", f"1{THIN}234{THIN}567.5 of -4{THIN}200"),
        ("CPU 1, CPU 2", "CPU 1, CPU 2"),
        ("(1,2) 3,45 6,7890 x,123", "(1,2) 3,45 6,7890 x,123"),
        ("", ""),
    ],
)
def test_grouped_numbers_in_a_text_of_the_model(text: str, shown: str) -> None:
    assert numbers.thin(text) == shown


@given(st.integers(min_value=0))
def test_grouping_by_thin_is_that_of_integer(value: int) -> None:
    assert numbers.thin(f"a {value:,} b") == f"a {numbers.integer(value)} b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (950, "950"),
        (999.9, f"1.00{THIN}k"),
        (1000, f"1.00{THIN}k"),
        (12345, f"12.3{THIN}k"),
        (999_999, f"1.00{THIN}M"),
        (123_456_789, f"123{THIN}M"),
        (2.5e9, f"2.50{THIN}G"),
        (7e12, f"7.00{THIN}T"),
    ],
)
def test_short(value: float, text: str) -> None:
    assert numbers.short(value) == text


@given(st.floats(0, 9.9e14))
def test_short_is_short_and_near(value: float) -> None:
    text = numbers.short(value)
    digits, _, unit = text.partition(THIN)
    scale = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[unit]
    assert float(digits) * scale == pytest.approx(value, rel=0.006, abs=0.51)
    assert len(text) <= 8


@pytest.mark.parametrize(
    ("value", "text"), [(3.24, f"+3.2{THIN}%"), (-0.04, f"+0.0{THIN}%"), (-12.0, f"−12.0{THIN}%")]
)
def test_signed_percent(value: float, text: str) -> None:
    assert numbers.signed_percent(value) == text


def test_plural() -> None:
    assert numbers.plural(1, "slab") == f"1{THIN}slab"
    assert numbers.plural(0, "slab") == f"0{THIN}slabs"


def test_the_scale_goes_from_one_to_unlimited_and_rises() -> None:
    rates = [speed.rate_of(position) for position in range(speed.UNLIMITED + 1)]
    assert rates[0] == 1.0
    assert math.isinf(rates[-1])
    assert all(a < b for a, b in pairwise(rates))
    assert {b / a for a, b in pairwise(rates[:-1])} <= {2.0, 2.5}


def test_labels_say_the_rate() -> None:
    assert speed.label_of(0) == f"1{THIN}micro-op/s"
    assert speed.label_of(2) == f"5{THIN}micro-ops/s"
    assert speed.label_of(9) == f"1.00{THIN}k{THIN}micro-ops/s"
    assert speed.label_of(speed.UNLIMITED) == "unlimited"


def test_one_a_second_runs_at_once_and_then_each_second() -> None:
    pacer = Pacer(1.0)
    assert [pacer.due(t) for t in (10.0, 10.5, 10.99, 11.0, 11.5, 12.01)] == [1, 0, 0, 1, 0, 1]


def test_a_pause_earns_nothing() -> None:
    pacer = Pacer(1000.0)
    pacer.due(0.0)
    pacer.restart()
    assert pacer.due(100.0) == 1
    assert pacer.due(100.01) == 10


def test_a_machine_too_slow_saves_up_no_debt() -> None:
    pacer = Pacer(1_000_000.0)
    pacer.due(0.0)
    for _ in range(40):
        pacer.ran(20_000, 1.0)  # far below the asked rate: the chunk shrinks to its smallest
    assert pacer.due(60.0) == 1000
    later = sum(pacer.due(60.0) for _ in range(1000))
    assert later <= 1_000_000 * speed.CHUNK_SECONDS * 4


@given(st.floats(1, 1e6), st.lists(st.floats(0.001, 0.5), min_size=1, max_size=60))
def test_the_pacer_never_runs_ahead_of_its_rate(rate: float, waits: list[float]) -> None:
    pacer = Pacer(rate)
    now, total = 0.0, pacer.due(0.0)
    for wait in waits:
        now += wait
        total += pacer.due(now)
        assert total <= 1 + now * rate * (1 + 1e-9) + 1e-6


def test_unlimited_chunks_follow_what_they_take() -> None:
    pacer = Pacer()
    first = pacer.due(0.0)
    pacer.ran(first, speed.CHUNK_SECONDS / 10)
    assert pacer.due(0.0) == 2 * first  # at most a factor of two at once
    pacer.ran(2 * first, speed.CHUNK_SECONDS * 10)
    assert pacer.due(0.0) == first
    for _ in range(60):
        pacer.ran(pacer.due(0.0), 0.0)
    assert pacer.due(0.0) <= 20_000_000


def test_waits_are_bounded_so_that_commands_are_seen() -> None:
    slow = Pacer(1.0)
    slow.due(0.0)
    assert slow.wait_seconds() == 0.05
    assert Pacer().wait_seconds() == 0.0
