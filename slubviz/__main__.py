"""``python -m slubviz``: the same as the ``slubviz`` command."""

from __future__ import annotations

import sys

from slubviz.cli import main

if __name__ == "__main__":
    sys.exit(main())
