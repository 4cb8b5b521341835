"""What ``--size``, ``--objects``, ``--test``, ``--kernel``, ``--option`` and ``--seeds`` mean.

Only the wording is judged here; whether a machine has such a size or a kernel such an option is for
the runner to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from slubviz.model.errors import RequestError, quoted, unknown_name

#: Largest size that any kmalloc of the modelled kernels can take.
LARGEST_SIZE_BYTES = 32 * 1024 * 1024
#: Far above what fits in memory; stops numbers that would overflow the machine's words.
LARGEST_OPS = 1_000_000_000

#: Largest seed, and how many of them one run takes.
LARGEST_SEED = (1 << 63) - 1
MOST_SEEDS = 1000

_OBJECTS_HELP = "give objects per call such as 8, a list 1,2,30,32, or all"
_SEEDS_HELP = "give seeds such as 1-30 or 1,5,9"
_SIZE_HELP = "give bytes such as 64, a list 96,192, a range 8:4096, or all"
_COMMA = re.compile(r",(?![^\[\]]*\])")  # not within brackets
_DIGITS = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_SEED_RANGE = re.compile(r"([0-9]+)(?: *- *([0-9]+))?\Z", re.ASCII)
_OPTION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([+-]?(?:0[xX][0-9A-Fa-f]+|[0-9]+))\Z", re.ASCII)


def parse_sizes(text: str) -> tuple[int, ...] | None:
    """Sizes in bytes, ascending and each once; None for ``all``.

    ``LOW:HIGH`` stands for the powers of two from LOW to HIGH, both included.

    Raises
    ------
    RequestError
        For anything that is not a size from 1 to ``LARGEST_SIZE_BYTES``, or a range without sizes.
    """
    if text.strip().lower() == "all":
        return None
    sizes: set[int] = set()
    for item in _items(text, "--size", _SIZE_HELP):
        if ":" in item:
            sizes.update(_size_range(item))
        else:
            sizes.add(_size(item))
    return tuple(sorted(sizes))


def _size_range(item: str) -> list[int]:
    ends = item.split(":")
    if len(ends) != 2:
        raise RequestError(f"size range {quoted(item)} has more than two ends: {_SIZE_HELP}")
    low, high = (_size(end.strip()) for end in ends)
    if low > high:
        raise RequestError(f"size range {quoted(item)} runs backwards: write {high}:{low}")
    powers = [1 << bit for bit in range(LARGEST_SIZE_BYTES.bit_length()) if low <= 1 << bit <= high]
    if not powers:
        raise RequestError(
            f"size range {quoted(item)} holds no power of two: name the sizes, e.g. {low},{high}"
        )
    return powers


def _size(item: str) -> int:
    if not _DIGITS.match(item):
        raise RequestError(f"size {quoted(item)} is not a whole number of bytes: {_SIZE_HELP}")
    size = _bounded_int(item)
    if size is None or not 1 <= size <= LARGEST_SIZE_BYTES:
        raise RequestError(f"size {quoted(item)} is out of range: sizes are 1 to {LARGEST_SIZE_BYTES} bytes")
    return size


def parse_objects(text: str) -> tuple[int, ...] | None:
    """Objects per bulk call, ascending and each once; None for ``all``.

    Raises
    ------
    RequestError
        For anything that is not a positive number.
    """
    if text.strip().lower() == "all":
        return None
    counts = set()
    for item in _items(text, "--objects", _OBJECTS_HELP):
        count = _bounded_int(item) if _DIGITS.match(item) else None
        if count is None or not 1 <= count <= LARGEST_OPS:
            raise RequestError(f"--objects {quoted(item)} is not a number of objects: {_OBJECTS_HELP}")
        counts.add(count)
    return tuple(sorted(counts))


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds, ascending and each once: ``5``, ``1,5,9``, ``1-30``.

    Raises
    ------
    RequestError
        For anything that is not a seed, a range that runs backwards, or more than ``MOST_SEEDS``.
    """
    seeds: set[int] = set()
    for item in _items(text, "--seeds", _SEEDS_HELP):
        match = _SEED_RANGE.match(item)
        ends = [_bounded_int(end) for end in match.groups() if end is not None] if match else []
        known = [end for end in ends if end is not None and end <= LARGEST_SEED]
        if not known or len(known) != len(ends):
            raise RequestError(f"--seeds {quoted(item)} is not a seed or range of seeds: {_SEEDS_HELP}")
        first, last = known[0], known[-1]
        if first > last:
            raise RequestError(f"--seeds {quoted(item)} runs backwards: write {last}-{first}")
        if last - first >= MOST_SEEDS:
            raise RequestError(
                f"--seeds {quoted(item)} names {last - first + 1} seeds; at most {MOST_SEEDS} are run"
            )
        seeds.update(range(first, last + 1))
    if len(seeds) > MOST_SEEDS:
        raise RequestError(f"--seeds names {len(seeds)} seeds; at most {MOST_SEEDS} are run")
    return tuple(sorted(seeds))


def _bounded_int(digits: str) -> int | None:
    # int() itself refuses thousands of digits, and nothing here needs more than 19.
    return int(digits) if len(digits) <= 20 else None


def parse_tests(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Test names in the order of ``known``, each once: ``A,D``, ``A-C``, ``all`` (every one of ``known``).

    Case does not matter.

    Raises
    ------
    RequestError
        For an unknown test, listing the known ones, or a range that runs backwards.
    """
    by_lower = {name.lower(): name for name in known}
    if text.strip().lower() == "all":
        return tuple(known)
    chosen: set[str] = set()
    for item in _items(text, "--test", "give letters such as A,D or a range such as A-F"):
        ends = [end.strip() for end in item.split("-")]
        # A misspelt name with a hyphen is not a range: one end at least is a known name there.
        is_range = len(ends) == 2 and all(ends) and any(end.lower() in by_lower for end in ends)
        if item.lower() not in by_lower and is_range:
            chosen.update(_test_range(item, ends, by_lower, known))
        else:
            chosen.add(_test(item, by_lower, known))
    return tuple(name for name in known if name in chosen)


def _test(item: str, by_lower: dict[str, str], known: Sequence[str]) -> str:
    if item.lower() not in by_lower:
        raise unknown_name("test", item, known)
    return by_lower[item.lower()]


def _test_range(item: str, ends: list[str], by_lower: dict[str, str], known: Sequence[str]) -> Sequence[str]:
    first, last = (known.index(_test(end, by_lower, known)) for end in ends)
    if first > last:
        raise RequestError(f"test range {quoted(item)} runs backwards: write {ends[1]}-{ends[0]}")
    return known[first : last + 1]


def parse_kernels(values: Iterable[str]) -> tuple[str, ...]:
    """Kernel names or paths, in the order given and each once.

    Each value is a list with commas, as ``--kernel`` may be given several times.  Commas in brackets belong
    to a name, ``slub[1,6,8]``.

    Raises
    ------
    RequestError
        If no name is given, or one is empty.
    """
    names = [name for value in values for name in _items(value, "--kernel", "give names such as slub,slub+")]
    if not names:
        raise RequestError("--kernel is empty: give names such as slub,slub+")
    return tuple(dict.fromkeys(names))


def parse_options(values: Iterable[str]) -> dict[str, int]:
    """``NAME=VALUE`` overrides; values are decimal or 0x numbers.

    Raises
    ------
    RequestError
        For another form, a number beyond 64 bits, or a name given twice with different values.
    """
    options: dict[str, int] = {}
    for value in values:
        match = _OPTION.match(value.strip())
        if match is None:
            raise RequestError(
                f"--option {quoted(value)} is not NAME=NUMBER: write for example slub_max_order=3"
            )
        name, digits = match.groups()
        number = _bounded_int(digits) if "x" not in digits.lower() else int(digits, 16)
        if number is None or not -(1 << 63) <= number < 1 << 63:
            raise RequestError(f"--option {quoted(value)} does not fit in 64 bits")
        if options.get(name, number) != number:
            raise RequestError(f"--option {name} is given twice: {options[name]} and {number}")
        options[name] = number
    return options


def parse_count(text: str, name: str, lowest: int, highest: int) -> int:
    """A whole number from ``lowest`` to ``highest``.

    Raises
    ------
    RequestError
        Naming the option, the value and the range.
    """
    number = _bounded_int(text.strip()) if _DIGITS.match(text.strip()) else None
    if number is None or not lowest <= number <= highest:
        raise RequestError(f"{name} {quoted(text)} must be a whole number from {lowest} to {highest}")
    return number


def _items(text: str, option: str, help_text: str) -> list[str]:
    items = [item.strip() for item in _COMMA.split(text)]
    if not all(items):
        where = "is empty" if len(items) == 1 else f"{quoted(text)} has an empty item"
        raise RequestError(f"{option} {where}: {help_text}")
    return items
