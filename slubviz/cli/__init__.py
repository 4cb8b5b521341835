"""The command line.  ``main`` is the entry point; nothing here needs Qt except the ``gui`` command.

Exit codes: 0 done, 1 something failed, 2 the command line or the request is wrong, 130 interrupted,
143 terminated.
"""

from slubviz.cli.entry import main

__all__ = ["main"]
