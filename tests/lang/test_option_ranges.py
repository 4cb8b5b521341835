"""Options with a range."""

from __future__ import annotations

import pytest

from tests.lang.helpers import compiled, error_of

TEXT = 'TOP = 8\nBITS = option(TOP // 2, "width", 2, TOP)\n'


@pytest.mark.parametrize("value", [2, 4, 8])
def test_values_inside(value: int) -> None:
    option = compiled(TEXT, options={"BITS": value}).options["BITS"]
    assert (option.value, option.default) == (value, 4)


@pytest.mark.parametrize("value", [-1, 1, 9])
def test_values_outside(value: int) -> None:
    assert error_of(TEXT, options={"BITS": value}) == f"options: option BITS goes from 2 to 8, not {value}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('A = option(1, "x", 2, 3)', "t.py:1:1: option A goes from 2 to 3, not 1: `A`"),
        (
            'A = option(1, "x", 2)',
            "t.py:1:20: a range has two ends: `2` "
            '(write NAME = option(default, "what it chooses", lowest, highest))',
        ),
        (
            'A = option(1, "x", 2, 3, 4)',
            't.py:1:5: 2 to 4 arguments expected, 5 given: `option(1, "x", 2, 3, 4)` '
            '(write NAME = option(default, "what it chooses", lowest, highest))',
        ),
        ('A = option(1, "x", b, 3)', "t.py:1:20: unknown name b: `b`"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    assert error_of(text + "\n") == message
