"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Before anything imports Qt: tests need no display.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

# No deadlines (a slow machine is not a defect) and the same examples every time.
settings.register_profile("slubviz", deadline=None, derandomize=True)
settings.load_profile("slubviz")
