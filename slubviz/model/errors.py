"""Errors that a user can mend, each told in one line: what is wrong, where, and what to do.

Whoever shows such an error (command line or window) shows its text and nothing else; anything that is
not a ``UserError`` is a defect of the program and keeps its traceback.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something the user can mend; ``str()`` is one line.  ``exit_code`` is the command line's."""

    exit_code = 1


class RequestError(UserError):
    """The request itself is wrong: an unknown name, a size out of range, options that clash."""

    exit_code = 2


class OutputError(UserError):
    """An output file cannot be written."""


def quoted(text: str, longest: int = 60) -> str:
    """``text`` in quotes, on one line and cut to at most ``longest`` characters."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return repr(text)


def quoted_path(path: str | os.PathLike[str]) -> str:
    """A path in quotes, on one line; only absurdly long ones are cut."""
    return quoted(os.fspath(path), longest=400)


def unknown_name(kind: str, name: str, known: Iterable[str], more: str = "") -> RequestError:
    """The error for a name that is not known.

    Parameters
    ----------
    kind
        What the name stands for, e.g. ``"machine"``.
    name
        What the user gave.
    known
        The names that exist, in the order in which to list them.
    more
        A further hint, e.g. ``"or the path of a .toml file"``.

    Returns
    -------
    RequestError
        Lists the known names and, where one is near, asks whether it was meant.
    """
    names = list(known)
    near = get_close_matches(name.lower(), [n.lower() for n in names], n=1)
    meant = next((n for n in names if near and n.lower() == near[0]), None)
    question = f"; did you mean {meant}?" if meant else ""
    listed = ", ".join(names) if names else "none"
    tail = f", {more}" if more else ""
    return RequestError(f"unknown {kind} {quoted(name)}{question} (known: {listed}{tail})")
