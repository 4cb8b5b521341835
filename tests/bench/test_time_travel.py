"""The group time-travel, on a run so short that it takes no time; no time is judged."""

from __future__ import annotations

import json

import pytest

from slubviz.cli import main
from slubviz.model.bench import suite
from slubviz.model.bench.figures import QUICK_WORK, BenchRequest, Verdict, report_json
from slubviz.model.bench.time_travel import STEPS_AT_EACH_PLACE
from slubviz.model.travel.recording import Recording

WORK = QUICK_WORK.__class__(**{**QUICK_WORK.__dict__, "travel_ops": 30, "travel_seeks": 4})
REQUEST = BenchRequest(groups=("time-travel",), repeat=2, work=WORK)


@pytest.fixture(autouse=True)
def short_drag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slubviz.model.bench.processes.SCRUBBING_SECONDS", 0.5)


def test_the_group_measures_recording_seeks_and_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[int] = []
    steps: list[int] = []
    seek, step_back = Recording.seek, Recording.step_back

    def noted_seek(self: Recording, position: int, **how: object) -> bool:
        places.append(position)
        return seek(self, position, **how)  # type: ignore[arg-type]

    def noted_step(self: Recording) -> bool:
        steps.append(self.position)
        return step_back(self)

    monkeypatch.setattr(Recording, "seek", noted_seek)
    monkeypatch.setattr(Recording, "step_back", noted_step)
    suite.validate(REQUEST)
    report = suite.measure(REQUEST)
    figures = {figure.name: figure for figure in report.figures}
    assert [*figures] == [
        "travel_run",
        "travel_recorded",
        "travel_cost",
        "travel_memory",
        "seek_median",
        "seek_worst",
        "step_back_median",
        "step_back_worst",
        "scrubbing",
    ]
    assert figures["scrubbing"].best > 0, figures["scrubbing"].reason
    assert len(steps) == WORK.travel_seeks * STEPS_AT_EACH_PLACE
    assert len(set(places)) > WORK.travel_seeks  # random places, and where the steps back led
    assert figures["seek_worst"].best >= figures["seek_median"].best > 0
    assert len(figures["travel_run"].samples) == 2
    assert figures["travel_memory"].verdict is Verdict.MET
    json.loads(report_json(report, "0"))


def test_the_option_stands_for_the_group_and_not_beside_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--time-travel", "--only", "engine"]) == 2
    assert "--time-travel stands for --only time-travel" in capsys.readouterr().err
