"""TOML from anybody, read in a time that grows with its length alone.

``tomllib`` takes quadratic time for keys of very many parts, ``a.a.a.a = 1``; they are refused before.
Leaves out: bounds on the length of the text, which are the caller's.
"""

from __future__ import annotations

import tomllib
from typing import Any

#: Dots in one line; far more than a key has parts or a line of text has sentences.
MOST_DOTS = 200


def parse_toml(text: str) -> dict[str, Any]:
    """The document in a text.

    Raises
    ------
    ValueError
        One line: why it is not TOML, or is more than anybody writes.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            raise ValueError(f"more than {MOST_DOTS} dots (at line {number})")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except ValueError as error:  # the interpreter's bound on the length of numbers
        raise ValueError("a number has thousands of digits") from error
