"""``slubviz source``: a kernel's allocator program as one file to copy and change."""

from __future__ import annotations

import sys

import click

_EXAMPLES = """
\b
Examples:
  slubviz source slub+ > my_slub.py
  slubviz run --kernel ./my_slub.py,slub+ --test A,C --check
"""


@click.command("source", epilog=_EXAMPLES, short_help="Print a kernel's allocator program.")
@click.argument("kernel", metavar="KERNEL")
def source(kernel: str) -> None:
    """Print the whole allocator program of KERNEL as one file.

    It is in the kernel language; the options have the values of the kernel as defaults.  Save it, change
    it, and give its path to `slubviz run --kernel`.
    """
    from slubviz.model.kernel_source import allocator_text
    from slubviz.model.kernels import load_kernel

    sys.stdout.write(allocator_text(load_kernel(kernel)))
