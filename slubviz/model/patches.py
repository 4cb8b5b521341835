"""The ten patches of October 2007 one by one: which of them a kernel is to have.

A kernel's name may end in a list of patches, ``slub[1,6,8]``, ``slub[1-10]``, ``slub[none]``: exactly
those are applied.  ``--patches`` of the command line appends it.  Which kernels can take patches is said in
``kernels``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slubviz.model.errors import RequestError, quoted

#: Number -> what it does, in a few words.
PATCHES: dict[int, str] = {
    1: "deactivated slabs with local objects go to the list's head, others to its tail",
    2: "rarely used functions are not expanded in place (no effect here)",
    3: "the node is looked up inside add_partial",
    4: "no test for a valid object on the fast path",
    5: "a single exit of __slab_alloc (no effect here)",
    6: "an end marker of its own for each slab",
    7: "objects per slab copied to the per-cpu structure",
    8: "fast paths with cmpxchg_local instead of disabled interrupts; needs 6",
    9: "own slab lock: one locked operation, unlock by a plain store",
    10: "slow path in the order in which it usually runs",
}
#: Patch -> the one that it relies on, and why.
_NEEDS = {8: (6, "without end markers that differ an emptied freelist looks like that of another slab")}
_HELP = "give numbers such as 1,6,8, ranges such as 1-10, all or none"
_SUFFIX = re.compile(r"(?P<kernel>.*[^\[\]])\[(?P<patches>[^\[\]]*)\]", re.DOTALL)
_ITEM = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)


def parse_patches(text: str) -> frozenset[int]:
    """Numbers of patches: ``1,6,8``, ``1-10``, ``all``, ``none``.

    Raises
    ------
    RequestError
        For anything else, an unknown number, a range that runs backwards, or a patch without the one
        that it needs.
    """
    word = text.strip().lower()
    if word in ("all", "none"):
        return frozenset(PATCHES) if word == "all" else frozenset()
    chosen: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise RequestError(f"--patches {quoted(text)}: {quoted(item.strip())} is no patch: {_HELP}")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if first > last:
            raise RequestError(f"--patches {quoted(text)}: range {item.strip()} runs backwards: {_HELP}")
        for number in (first, last):
            if number not in PATCHES:
                raise RequestError(f"--patches {quoted(text)}: there is no patch {number}; there are 1 to 10")
        chosen.update(range(first, last + 1))
    for number, (needed, reason) in _NEEDS.items():
        if number in chosen and needed not in chosen:
            complete = patch_label(chosen | {needed})
            raise RequestError(
                f"--patches {quoted(text)}: patch {number} needs patch {needed}: {reason}; give {complete}"
            )
    return frozenset(chosen)


def patch_label(patches: Iterable[int]) -> str:
    """The shortest text that ``parse_patches`` reads back: ``1,6,8``, ``1-10``, ``none``."""
    runs: list[list[int]] = []
    for number in sorted(patches):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return ",".join(parts) or "none"


def patch_options(patches: Iterable[int]) -> dict[str, int]:
    """All ten options of the kernel program."""
    chosen = set(patches)
    return {f"PATCH_{number:02}": int(number in chosen) for number in PATCHES}


def split_patches(name: str) -> tuple[str, frozenset[int] | None]:
    """``slub[1,6,8]`` -> ``slub`` and the patches; None where the name has no list."""
    match = _SUFFIX.fullmatch(name)
    if match is None:
        return name, None
    return match["kernel"], parse_patches(match["patches"])


def with_patches(kernels: Iterable[str], text: str) -> tuple[str, ...]:
    """Kernel names with the patches of ``--patches`` appended.

    Raises
    ------
    RequestError
        As ``parse_patches``; or for a kernel that has its list of patches already.
    """
    label = patch_label(parse_patches(text))
    named = []
    for kernel in kernels:
        if _SUFFIX.fullmatch(kernel):
            raise RequestError(f"kernel {quoted(kernel)} names its patches; leave --patches out")
        named.append(f"{kernel}[{label}]")
    return tuple(named)
