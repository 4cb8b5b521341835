"""``slubviz run --slabinfo``: the allocator's statistics of each cell in the form of ``slabinfo -r``."""

from __future__ import annotations

from collections.abc import Sequence

from slubviz.model.errors import RequestError
from slubviz.model.results import CellResult, over_seeds

#: Below the name of a cache whose report is empty, e.g. in a phase that only frees.
_NOTHING = "(no statistics to print: nothing was allocated from slabs in this cell)\n"


def require_statistics(kernels: Sequence[str]) -> None:
    """Raise RequestError if a kernel keeps no statistics that slabinfo shows."""
    from slubviz.model.kernels import load_kernel  # loads the compiler

    for kernel in kernels:
        if not load_kernel(kernel).statistics_era:
            raise RequestError(f"--slabinfo: kernel {kernel} keeps no statistics of SLUB; leave it out")


def slabinfo_text(cells: Sequence[CellResult]) -> str:
    """One report for each cell, means over the seeds where there were several."""
    from slubviz.model.kernels import load_kernel
    from slubviz.model.slabinfo import slabinfo_report

    parts = []
    for cell in over_seeds(cells):
        where = " ".join(part for part in (cell.test, cell.operation, cell.point_label) if part)
        many = f", mean of {cell.spread.seeds} seeds" if cell.spread else ""
        era = load_kernel(cell.kernel).statistics_era
        name = f"kmalloc-{cell.size_bytes}" if cell.size_bytes else "kmalloc"
        report = slabinfo_report(cell.counters, era, name)
        if report.count("\n") == 1:  # as the tool does, which says nothing more
            report += _NOTHING
        parts.append(f"\n{cell.kernel}, {where}{many}\n{report}")
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)
