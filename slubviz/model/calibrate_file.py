"""Writes fitted costs into a copy of a machine file, and changes nothing else in it.

Comments, sources, order and layout stay: only the number after ``value =`` in the section of each fitted
cost is replaced.  The result is read back and must be the same machine with the new costs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from slubviz.hw.machine_file import MachineFileError, parse_machine
from slubviz.model.errors import UserError

_SECTION = re.compile(r"^\s*\[\s*([A-Za-z0-9_.\"' -]+?)\s*\]\s*(?:#.*)?$")
_VALUE = re.compile(r"^(\s*value\s*=\s*)([^#\s]+)(.*)$", re.DOTALL)
_DIGITS = 4  #: significant: far finer than a fit determines


def shown_value(value: float, low: float, high: float) -> str:
    """A cost as it is written: four significant digits, never outside its range."""
    text = f"{value:.{_DIGITS}g}"
    if "e" in text:
        text = f"{float(text):f}".rstrip("0").rstrip(".")
    if not low <= float(text) <= high:
        text = repr(min(max(value, low), high))
    return text


def with_values(text: str, values: Mapping[str, float], where: str) -> str:
    """The text of a machine file with other cost values.

    Parameters
    ----------
    text
        The file's content.
    values
        Costs by name.
    where
        Name of the file for messages.

    Raises
    ------
    UserError
        If a cost's ``value`` is not found on a line of its own section, or the result would be wrong.
    """
    try:
        before = parse_machine(text, where)
    except MachineFileError as error:
        raise UserError(str(error)) from error
    wanted = {
        name: shown_value(value, before.costs[name].plausible_low, before.costs[name].plausible_high)
        for name, value in values.items()
    }
    lines, written, section = [], set(), ""
    for line in text.splitlines(keepends=True):
        heading = _SECTION.match(line)
        if heading:
            section = heading[1].replace(" ", "")
        name = section.removeprefix("cost.")
        value = _VALUE.match(line)
        if value and section.startswith("cost.") and name in wanted:
            line = f"{value[1]}{wanted[name]}{value[3]}"
            written.add(name)
        lines.append(line)
    missing = [name for name in wanted if name not in written]
    if missing:
        raise UserError(
            f"{where}: cost.{missing[0]}: its value cannot be replaced; write a section "
            f"[cost.{missing[0]}] with 'value = NUMBER' on a line of its own"
        )
    result = "".join(lines)
    _check(result, wanted, where, before.costs.keys())
    return result


def _check(text: str, wanted: Mapping[str, str], where: str, names: object) -> None:
    try:
        after = parse_machine(text, where)
    except MachineFileError as error:
        raise UserError(f"the fitted values do not make a machine file: {error}") from error
    wrong = [
        name for name, value in wanted.items() if not math.isclose(after.costs[name].value, float(value))
    ]
    if wrong or after.costs.keys() != names:
        raise UserError(
            f"{where}: cost.{wrong[0] if wrong else ''}: its value cannot be replaced in the text"
        )
