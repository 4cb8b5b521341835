"""``python -m slubviz.cli.first_frame``: start the window as ``slubviz gui`` does and quit after one frame.

For the benchmark, which starts it in a process of its own.  When the window has been painted for the first
time it prints one line of JSON: the monotonic clock and this process's CPU time, in seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> int:
    """Run the window until its first frame; the exit code of the window."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QEvent, QObject, QTimer
    from PySide6.QtWidgets import QApplication, QMainWindow

    class FirstPaint(QObject):
        """Notes the end of the first repaint of a main window."""

        seen = False

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if not self.seen and event.type() == QEvent.Type.Paint and isinstance(watched, QMainWindow):
                self.seen = True
                # All widgets are painted in one go: a timer of zero runs as soon as that is done.
                QTimer.singleShot(0, note_and_quit)
            return False

    def note_and_quit() -> None:
        now = {"monotonic_seconds": time.monotonic(), "cpu_seconds": time.process_time()}
        print(json.dumps(now), flush=True)
        application.quit()

    application = QApplication(sys.argv[:1])  # the window takes the one that exists
    watcher = FirstPaint(application)
    application.installEventFilter(watcher)
    from slubviz.cli import main as command_line

    return command_line(["gui"])


if __name__ == "__main__":
    sys.exit(main())
