"""What --size, --test, --kernel, --option and counts mean."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.model.errors import RequestError, UserError
from slubviz.model.selection import (
    LARGEST_SEED,
    LARGEST_SIZE_BYTES,
    MOST_SEEDS,
    parse_count,
    parse_kernels,
    parse_objects,
    parse_options,
    parse_seeds,
    parse_sizes,
    parse_tests,
)

TESTS = ("A", "B", "C", "D", "E", "F")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("all", None),
        (" ALL ", None),
        ("64", (64,)),
        ("192,96", (96, 192)),
        ("8, 8 ,16", (8, 16)),
        ("8:4096", (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)),
        ("5:17", (8, 16)),
        ("16:16", (16,)),
        ("8:32,96", (8, 16, 32, 96)),
        ("1", (1,)),
        (str(LARGEST_SIZE_BYTES), (LARGEST_SIZE_BYTES,)),
    ],
)
def test_sizes(text: str, sizes: tuple[int, ...] | None) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("0", "out of range"),
        ("-8", "out of range"),
        (str(LARGEST_SIZE_BYTES + 1), f"1 to {LARGEST_SIZE_BYTES} bytes"),
        ("9" * 5000, "out of range"),
        ("abc", "not a whole number"),
        ("1.5", "not a whole number"),
        ("1_000", "not a whole number"),
        ("６４", "not a whole number"),
        ("", "is empty"),
        ("8,,16", "empty item"),
        ("8:", "not a whole number"),
        ("1:2:3", "more than two ends"),
        ("4096:8", "write 8:4096"),
        ("9:15", "no power of two"),
        ("0:64", "out of range"),
    ],
)
def test_bad_sizes(text: str, part: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_sizes(text)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@given(st.lists(st.integers(1, LARGEST_SIZE_BYTES), min_size=1))
def test_every_list_of_sizes_is_taken_sorted_and_once(sizes: list[int]) -> None:
    assert parse_sizes(",".join(map(str, sizes))) == tuple(sorted(set(sizes)))


@given(st.integers(1, LARGEST_SIZE_BYTES), st.integers(1, LARGEST_SIZE_BYTES))
def test_a_range_is_the_powers_of_two_in_it(one: int, other: int) -> None:
    low, high = sorted((one, other))
    expected = tuple(2**n for n in range(40) if low <= 2**n <= high)
    if expected:
        assert parse_sizes(f"{low}:{high}") == expected
    else:
        with pytest.raises(RequestError, match="no power of two"):
            parse_sizes(f"{low}:{high}")


def refusal(parse: Callable[[str], object], text: str) -> str:
    try:
        parse(text)
    except UserError as error:
        return str(error)
    return "taken"


@given(st.text(max_size=80))
def test_any_text_is_taken_or_refused_in_one_line(text: str) -> None:
    parsers: tuple[Callable[[str], object], ...] = (
        parse_sizes,
        parse_objects,
        parse_seeds,
        lambda t: parse_tests(t, TESTS),
        lambda t: parse_options([t]),
    )
    for parse in parsers:
        assert len(refusal(parse, text).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "tests"),
    [
        ("A", ("A",)),
        ("A-F", TESTS),
        ("all", TESTS),
        ("D,A", ("A", "D")),
        ("a-c,f", ("A", "B", "C", "F")),
        ("B - C, B", ("B", "C")),
    ],
)
def test_tests(text: str, tests: tuple[str, ...]) -> None:
    assert parse_tests(text, TESTS) == tests


def test_a_name_with_a_hyphen_is_a_name_before_it_is_a_range() -> None:
    assert parse_tests("alloc-free", ("A", "alloc-free")) == ("alloc-free",)
    with pytest.raises(RequestError, match="unknown test 'aloc-free'; did you mean alloc-free"):
        parse_tests("aloc-free", ("A", "alloc-free"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("G", "known: A, B, C, D, E, F"),
        ("A-G", "unknown test 'G'"),
        ("F-A", "write A-F"),
        ("", "is empty"),
        ("A,", "empty item"),
        ("-", "unknown test '-'"),
    ],
)
def test_bad_tests(text: str, part: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_tests(text, TESTS)
    assert part in str(caught.value)


def test_kernels_keep_the_order_given() -> None:
    assert parse_kernels(["slub+,slub", "slub", "./mine.py"]) == ("slub+", "slub", "./mine.py")


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("5", (5,)),
        ("1-4", (1, 2, 3, 4)),
        ("7,1 - 3, 2", (1, 2, 3, 7)),
        ("0", (0,)),
        (f"{LARGEST_SEED}", (LARGEST_SEED,)),
        ("3-3", (3,)),
    ],
)
def test_seeds(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty"),
        ("1,", "empty item"),
        ("-1", "not a seed"),
        ("1-", "not a seed"),
        ("1-2-3", "not a seed"),
        ("x", "give seeds such as"),
        ("1.5", "not a seed"),
        (str(LARGEST_SEED + 1), "not a seed"),
        ("9" * 5000, "not a seed"),
        ("9-3", "write 3-9"),
        ("1-1000000000000", f"at most {MOST_SEEDS}"),
        ("1-600,1000-1600", f"names 1201 seeds; at most {MOST_SEEDS}"),
    ],
)
def test_bad_seeds(text: str, part: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_seeds(text)
    assert part in str(caught.value)
    assert len(str(caught.value)) < 200


def test_objects_per_call() -> None:
    assert parse_objects("all") is None
    assert parse_objects("32,1, 30,1") == (1, 30, 32)
    for text in ("0", "-1", "x", "1:4", "1e3", "9" * 5000):
        with pytest.raises(RequestError, match="is not a number of objects"):
            parse_objects(text)


@pytest.mark.parametrize("values", [[""], ["slub,"], []])
def test_bad_kernels(values: list[str]) -> None:
    with pytest.raises(RequestError, match="--kernel"):
        parse_kernels(values)


def test_options() -> None:
    assert parse_options(["MAX_ORDER=3", "x=-1", "MASK=0xff", "MAX_ORDER=3"]) == {
        "MAX_ORDER": 3,
        "x": -1,
        "MASK": 255,
    }


@pytest.mark.parametrize(
    "value", ["MAX_ORDER", "=3", "A=", "A=b", "1A=2", "A=1.5", f"A={1 << 63}", "A=0x" + "f" * 40]
)
def test_bad_options(value: str) -> None:
    with pytest.raises(RequestError, match="--option"):
        parse_options([value])


def test_an_option_cannot_have_two_values() -> None:
    with pytest.raises(RequestError, match="given twice: 1 and 2"):
        parse_options(["A=1", "A=2"])


def test_counts() -> None:
    assert parse_count("1", "--ops", 1, 10) == 1
    assert parse_count(" 10 ", "--ops", 1, 10) == 10
    for text in ("0", "11", "-1", "", "x", "1e3", "9" * 5000):
        with pytest.raises(RequestError, match=r"--ops .* from 1 to 10"):
            parse_count(text, "--ops", 1, 10)
