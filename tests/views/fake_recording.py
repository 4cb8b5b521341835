"""Makes a made-up session a recording: its picture is a function of the micro-ops, so it can go anywhere.

Branches are kept as the real ones are: a change before the end makes a new branch.  A seek takes
``seek_seconds`` in ten slices, and looks at its stop flag between them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from slubviz.model.travel.bookmarks import Bookmark
from slubviz.model.travel.branches import Branch
from slubviz.model.travel.changes import Change, What


class FakeRecording:
    """Mixed into the fake session, which has ``micro_ops``, ``results``, ``calls`` and ``_advance``."""

    micro_ops: int
    calls: list[str]
    finished: bool
    fault: str

    def _start_recording(self) -> None:
        self.bookmarks: list[Bookmark] = []
        self.seeks: list[int] = []
        self.seek_seconds = 0.0
        self._branches = [Branch(0, None, 0, (), "first", 0)]
        self._current = 0

    @property
    def session(self) -> FakeRecording:
        return self

    @property
    def position(self) -> int:
        return self.micro_ops

    @property
    def end(self) -> int:
        return self.branch.end

    @property
    def over(self) -> bool:
        return self.finished or bool(self.fault)

    @property
    def branch(self) -> Branch:
        return self._branches[self._current]

    @property
    def branches(self) -> tuple[Branch, ...]:
        return tuple(self._branches)

    @property
    def changes(self) -> tuple[Change, ...]:
        branch, found = self.branch, []
        limit = branch.end
        while True:
            found = [c for c in branch.changes if c.position <= limit] + found
            if branch.parent is None:
                return tuple(found)
            limit = branch.fork_position
            branch = self._branches[branch.parent]

    def _recorded(self) -> None:
        if self.micro_ops > self.end:
            self._branches[self._current] = replace(self.branch, end=self.micro_ops)

    def step_back(self) -> bool:
        self.calls.append("step_back")
        self._go(max(0, self.micro_ops - 1))
        return True

    def prepare_steps_back(self) -> None:
        self.calls.append("prepare")

    def seek(
        self,
        position: int,
        *,
        stop: threading.Event | None = None,
        progress: Callable[[float], None] | None = None,
        prepare: bool = True,
    ) -> bool:
        self.calls.append("seek")
        for part in range(10 if self.seek_seconds else 0):
            time.sleep(self.seek_seconds / 10)
            if stop is not None and stop.is_set():
                return False
            if progress is not None:
                progress(part / 10)
        self.seeks.append(position)
        self._go(position)
        return True

    def change(self, what: What) -> Branch:
        self.calls.append("change")
        change = Change(self.micro_ops, what)
        if self.micro_ops < self.end:
            number = len(self._branches)
            self._branches.append(
                Branch(number, self._current, self.micro_ops, (change,), f"branch {number}", self.micro_ops)
            )
            self._current = number
        else:
            self._branches[self._current] = replace(self.branch, changes=(*self.branch.changes, change))
        return self.branch

    def switch(
        self, number: int, position: int | None = None, *, stop: threading.Event | None = None
    ) -> bool:
        self.calls.append("switch")
        self._current = number
        self._go(min(self.micro_ops if position is None else position, self.end))
        return True

    def rename(self, number: int, name: str) -> None:
        self._branches[number] = self._branches[number].renamed(name)

    def _go(self, position: int) -> None:
        raise NotImplementedError
