"""Numbers as text: thin separators, short forms, cycles and errors.

Only formatting; nothing here knows a widget.
"""

from __future__ import annotations

import re

#: Narrow no-break space: separates groups of digits, and a number from its unit.
THIN = "\u202f"
MINUS = "\u2212"
_COMMA = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def integer(value: float) -> str:
    """``1234567`` as ``1 234 567`` with thin spaces."""
    text = f"{round(value):,}".replace(",", THIN)
    return text.replace("-", MINUS)


def thin(text: str) -> str:
    """A text of the model with its grouped numbers as they are written here: ``36,908`` as ``36 908``."""
    return _COMMA.sub(THIN, text)


def short(value: float) -> str:
    """A number in at most about five characters: ``950``, ``12.3 k``, ``4.56 M``, ``1.20 G``."""
    magnitude = abs(value)
    for limit, divisor, suffix in ((1e3, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if magnitude < limit * 0.9995:
            scaled = value / divisor
            if not suffix:
                return integer(scaled)
            decimals = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
            return f"{scaled:.{decimals}f}{THIN}{suffix}".replace("-", MINUS)
    return f"{value / 1e12:.2f}{THIN}T".replace("-", MINUS)


def cycles(value: float) -> str:
    """Cycles with their unit."""
    return f"{integer(value)}{THIN}cycles"


def size(size_bytes: int) -> str:
    """An object size with its unit."""
    return f"{integer(size_bytes)}{THIN}B"


def signed_percent(value: float) -> str:
    """``+3.2 %``, with a real minus sign; never a negative zero."""
    rounded = round(value, 1) + 0.0
    return f"{rounded:+.1f}{THIN}%".replace("-", MINUS)


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 slab``, ``2 slabs``."""
    return f"{integer(count)}{THIN}{noun if count == 1 else (many or noun + 's')}"


def point(size_bytes: int, objects: int | None = None) -> str:
    """What a cell is about: a size with its unit, ``N=32`` for bulk calls, nothing where there is neither."""
    if objects is not None:
        return f"N={objects}"
    return size(size_bytes) if size_bytes else ""
