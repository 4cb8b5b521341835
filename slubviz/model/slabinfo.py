"""Allocator statistics in the words of ``slabinfo -r``, as the kernel tool of the time prints them.

The labels changed with the counters: 2.6.25 has one line about deactivation; 3.1 a table of it and how often
the two kinds of compare-and-exchange were repeated; 3.2 a row for the CPUs' partial lists.  Misspellings are
the tool's own ("Ocurrences"), and so is that it prints the two lines of repeated exchanges even when it
leaves out their heading.  Percentages are whole numbers, rounded down.

Left out: the parts of the report about sizes, debugging and nodes.  Where the tool divides by zero, because
nothing was freed, 0 stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Get = Callable[[str], int]
#: Kernels whose report differs from the one before, oldest first.
ERAS = ("2.6.25", "3.1", "3.2", "3.5")
_RULE = "-" * 50
_DEACTIVATIONS = (
    "DEACTIVATE_FULL",
    "DEACTIVATE_EMPTY",
    "DEACTIVATE_TO_HEAD",
    "DEACTIVATE_TO_TAIL",
)


def slabinfo_report(counters: Mapping[str, int], era: str, cache_name: str) -> str:
    """The report's text; nothing but the name's line if nothing was allocated.

    Parameters
    ----------
    counters : the kernel's statistics by their names in the source, ``ALLOC_FASTPATH``; missing ones are 0
    era : one of `ERAS`
    cache_name : what was measured, ``kmalloc-256``

    Raises
    ------
    ValueError
        For an unknown era.
    """
    if era not in ERAS:
        raise ValueError(f"no slabinfo report is known for statistics of {era!r}; known: {', '.join(ERAS)}")

    def get(name: str) -> int:
        return counters.get(name, 0)

    lines = [f"Slabcache: {cache_name}"]
    if get("ALLOC_FASTPATH") + get("ALLOC_SLOWPATH"):
        lines += _perf_counters(get, era)
        lines += _deactivation_line(get) if era == "2.6.25" else _deactivation_table(get)
        if era != "2.6.25":
            lines += _redos(get)
    return "\n".join(lines) + "\n"


def _percent(part: int, whole: int) -> int:
    return part * 100 // whole if whole else 0


def _perf_counters(get: Get, era: str) -> list[str]:
    """The block of two columns, and how often a cpu slab was flushed."""
    rows: list[tuple[str, int, int]] = [
        ("Fastpath", get("ALLOC_FASTPATH"), get("FREE_FASTPATH")),
        ("Slowpath", get("ALLOC_SLOWPATH"), get("FREE_SLOWPATH")),
        ("Page Alloc", get("ALLOC_SLAB"), get("FREE_SLAB")),
        ("Add partial", get("DEACTIVATE_TO_HEAD") + get("DEACTIVATE_TO_TAIL"), get("FREE_ADD_PARTIAL")),
        ("Remove partial", get("ALLOC_FROM_PARTIAL"), get("FREE_REMOVE_PARTIAL")),
    ]
    if era in ("3.2", "3.5"):
        rows.append(("Cpu partial list", get("CPU_PARTIAL_ALLOC"), get("CPU_PARTIAL_FREE")))
    rows.append(("RemoteObj/SlabFrozen", get("DEACTIVATE_REMOTE_FREES"), get("FREE_FROZEN")))
    allocated = get("ALLOC_FASTPATH") + get("ALLOC_SLOWPATH")
    freed = get("FREE_FASTPATH") + get("FREE_SLOWPATH")
    lines = ["", "Slab Perf Counter       Alloc     Free %Al %Fr", _RULE]
    lines += [
        f"{label:<20} {alloc:8d} {free:8d} {_percent(alloc, allocated):3d} {_percent(free, freed):3d}"
        for label, alloc, free in rows
    ]
    lines += [f"{'Total':<20} {allocated:8d} {freed:8d}", ""]
    if get("CPUSLAB_FLUSH"):
        lines.append(f"Flushes {get('CPUSLAB_FLUSH'):8d}")
    if era == "2.6.25" and get("ALLOC_REFILL"):
        lines.append(f"Refill {get('ALLOC_REFILL'):8d}")
    return lines


def _deactivation_line(get: Get) -> list[str]:
    total = sum(get(name) for name in _DEACTIVATIONS)
    if not total:
        return []
    labels = ("Full", "Empty", "ToHead", "ToTail")
    parts = [
        f"{label}={get(name)}({_percent(get(name), total)}%)"
        for label, name in zip(labels, _DEACTIVATIONS, strict=True)
    ]
    return ["Deactivate " + " ".join(parts)]


def _deactivation_table(get: Get) -> list[str]:
    total = sum(get(name) for name in _DEACTIVATIONS) + get("DEACTIVATE_BYPASS")
    if not total:
        return []
    rows = (
        ("Slab full", "DEACTIVATE_FULL"),
        ("Slab empty", "DEACTIVATE_EMPTY"),
        ("Moved to head of partial list", "DEACTIVATE_TO_HEAD"),
        ("Moved to tail of partial list", "DEACTIVATE_TO_TAIL"),
        ("Deactivation bypass", "DEACTIVATE_BYPASS"),
        ("Refilled from foreign frees", "ALLOC_REFILL"),
        ("Node mismatch", "ALLOC_NODE_MISMATCH"),
    )
    lines = ["", "Slab Deactivation             Ocurrences  %", "-" * 49]
    return lines + [f"{label:<29} {get(name):7d}  {_percent(get(name), total):3d}%" for label, name in rows]


def _redos(get: Get) -> list[str]:
    """How often an exchange was repeated: of a slab's pair (locked), and of a CPU's."""
    locked, unlocked = get("CMPXCHG_DOUBLE_FAIL"), get("CMPXCHG_DOUBLE_CPU_FAIL")
    heading = ["", "Cmpxchg_double Looping", "-" * 24] if locked or unlocked else []
    return [
        *heading,
        f"Locked Cmpxchg Double redos   {locked}",
        f"Unlocked Cmpxchg Double redos {unlocked}",
    ]
