"""What going back in time takes: the cost of recording, seeks and steps back anywhere in a long run.

The run is test E on the machine's own CPUs, about a hundred million micro-ops with ``FULL_WORK``. Places are
drawn from a fixed seed.  A recorded run is held against the same run of the same session that is not
recorded.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from statistics import median

from slubviz.model.bench.figures import BenchRequest, Figure, Timing, time_figure
from slubviz.model.bench.timing import Tell, stopwatch
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.travel.recording import Recording

RECORDING_COST_GOAL_PERCENT = 25.0
SEEK_MEDIAN_GOAL_SECONDS = 0.2
SEEK_WORST_GOAL_SECONDS = 0.5
STEP_BACK_GOAL_SECONDS = 0.005
STEPS_AT_EACH_PLACE = 10
_GROUP = "time-travel"
_WHOLE_RUN = 1 << 62


def measure_time_travel(request: BenchRequest, tell: Tell) -> Iterator[Figure]:
    """Recording, seeking, stepping back; see the module."""
    ops = request.work.travel_ops
    spec = SessionSpec(request.machine, request.kernel, "E", (64,), ops, 1)
    plain, recorded, recording = [], [], Recording(Session(spec))
    for i in range(request.repeat):
        tell(f"the same run without and with recording ({i + 1} of {request.repeat})")
        session = Session(spec)
        session.boot()
        with stopwatch() as watch:
            session.run(_WHOLE_RUN)
        plain.append(watch.timing)
        recording = Recording(session)
        recording.boot()
        with stopwatch() as watch:
            recording.run(_WHOLE_RUN)
        recorded.append(watch.timing)
    end, stats = recording.end, recording.stats()
    what = f"test E, {recording.session.machine_spec.cpus} CPUs, {end / 1e6:,.0f} M micro-ops"
    yield time_figure("travel_run", _GROUP, "a run that is not recorded", plain, detail=what)
    yield time_figure("travel_recorded", _GROUP, "the same run, recorded", recorded)
    yield _cost(plain, recorded)
    title = f"memory, {stats.checkpoints} checkpoints"
    size = float(stats.used_bytes)
    yield Figure("travel_memory", _GROUP, title, "bytes", (size,), goal=float(stats.budget_bytes))
    tell("seeks and steps back")
    yield from _seeks(recording, request.work.travel_seeks)


def _cost(plain: list[Timing], recorded: list[Timing]) -> Figure:
    """Of the fastest runs: what else the computer does can only make a run slower."""
    samples = [
        (min(pick(timing) for timing in recorded) / min(pick(timing) for timing in plain) - 1) * 100
        for pick in (_wall, _cpu)
    ]
    return Figure(
        "travel_cost",
        _GROUP,
        "what recording adds",
        "percent",
        (samples[0],),
        (samples[1],),
        goal=RECORDING_COST_GOAL_PERCENT,
        detail="the fastest run of each kind",
    )


def _wall(timing: Timing) -> float:
    return timing.wall_seconds


def _cpu(timing: Timing) -> float:
    return timing.cpu_seconds


def _seeks(recording: Recording, places: int) -> Iterator[Figure]:
    chance = random.Random(1)
    seeks: list[Timing] = []
    steps: list[Timing] = []
    for _ in range(places):
        with stopwatch() as watch:
            recording.seek(chance.randrange(recording.end))
        seeks.append(watch.timing)
        for _ in range(STEPS_AT_EACH_PLACE):
            with stopwatch() as watch:
                recording.step_back()
            steps.append(watch.timing)
    what = f"{places} random places"
    for name, title, timings, middle_goal, worst_goal, detail in (
        ("seek", "seek", seeks, SEEK_MEDIAN_GOAL_SECONDS, SEEK_WORST_GOAL_SECONDS, what),
        (
            "step_back",
            "step back",
            steps,
            STEP_BACK_GOAL_SECONDS,
            STEP_BACK_GOAL_SECONDS,
            f"{STEPS_AT_EACH_PLACE} steps at each of {what}",
        ),
    ):
        for kind, goal, of in (("median", middle_goal, median), ("worst", worst_goal, max)):
            picked = Timing(of([t.wall_seconds for t in timings]), of([t.cpu_seconds for t in timings]))
            yield time_figure(
                f"{name}_{kind}", _GROUP, f"{title}, {kind}", [picked], goal=goal, detail=detail
            )
