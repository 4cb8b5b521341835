"""``python -m slubviz.cli.scrubbing OPS SECONDS``: drag over a recorded run and count pictures.

For the benchmark, which starts it in a process of its own.  The window is the one of ``slubviz gui``; the
run is test E on eight CPUs with OPS operations each, recorded to its end.  Then the pointer is dragged to
and fro for SECONDS, a hundred positions a second, and each painted picture of another position counts. Prints
one line of JSON: micro-ops of the run, pictures, seconds, and the longest time that the window was busy with
anything at once.
"""

from __future__ import annotations

import json
import os
import sys
import time

_DRAG_MILLISECONDS = 10
_WIDTH, _HEIGHT = 1920, 1080
_PATIENCE_SECONDS = 120.0


def main(ops: int, seconds: float) -> int:
    """Run the window; the exit code."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QTimer

    from slubviz.views import commands as C
    from slubviz.views.app import configured_application, real_catalog, real_recording
    from slubviz.views.bridge import Bridge
    from slubviz.views.job import JobSpec
    from slubviz.views.main_window import MainWindow, ThemeMode
    from slubviz.views.real_travel import RealTravel
    from slubviz.views.view_update import ViewUpdate, WorkerState

    application = configured_application()
    job = JobSpec("e5345_8p", "slub", "E", (64,), ops, 1)
    bridge = Bridge(real_recording, model=RealTravel())
    window = MainWindow(bridge, real_catalog(), job, ThemeMode.LIGHT)
    window.resize(_WIDTH, _HEIGHT)
    window.show()
    bridge.start()

    def wait_for(states: tuple[WorkerState, ...]) -> ViewUpdate:
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while bridge.latest.state not in states:
            application.processEvents()
            time.sleep(0.005)
            if time.monotonic() > give_up:
                raise TimeoutError(f"the run is {bridge.latest.state.name}")
        return bridge.latest

    bridge.set_pause_measured(False)
    bridge.set_rate(float("inf"))
    bridge.send(C.Load(job, then_run=True))
    end = wait_for((WorkerState.FINISHED, WorkerState.FAULTED)).travel.end
    counted: set[tuple[int, int]] = set()
    turn = 0

    def drag() -> None:
        nonlocal turn
        turn += 1
        share = abs((turn * _DRAG_MILLISECONDS / 1000 / 3) % 2 - 1)  # to and fro in six seconds
        window.travel.timeline.scrubbed.emit(int(share * end))

    def count(update: ViewUpdate) -> None:
        counted.add((update.travel.position, update.travel.branch.number if update.travel.branch else 0))

    bridge.updated.connect(count)
    timer = QTimer()
    timer.setInterval(_DRAG_MILLISECONDS)
    timer.timeout.connect(drag)
    timer.start()
    began, longest = time.monotonic(), 0.0
    while time.monotonic() - began < seconds:
        before = time.monotonic()
        application.processEvents()
        longest = max(longest, time.monotonic() - before)
        time.sleep(0.0005)
    elapsed = time.monotonic() - began
    timer.stop()
    answer = {
        "micro_ops": end,
        "pictures": len(counted),
        "seconds": elapsed,
        "longest_busy_seconds": longest,
        "cpu_seconds": time.process_time(),
    }
    print(json.dumps(answer), flush=True)
    window.close()
    bridge.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2])))
