"""Scenarios: all that come with slubviz end as they say, for the reason that they give; anchors, and files
that are wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from slubviz.hw import layout as L
from slubviz.model.scenarios import load_scenario, parse_scenario, scenario_files
from slubviz.model.scenarios.anchors import parse_anchor
from slubviz.model.scenarios.files import ORDER, known_scenarios
from slubviz.model.scenarios.job import scenario_session
from slubviz.model.scenarios.run import ScenarioResult
from slubviz.model.scenarios.scenario import OutcomeKind
from slubviz.model.travel.session_file import SessionExtras, load_session, save_session
from tests.model.scenario_helpers import (
    play,
)

NAMES = list(scenario_files())


@cache
def played(name: str) -> ScenarioResult:
    return play(load_scenario(name))


# --- those that come with slubviz -------------------------------------------------------------------


def test_every_scenario_of_the_list_is_there_with_a_title_of_its_own() -> None:
    assert list(ORDER) == NAMES
    titles = known_scenarios()
    assert list(titles) == NAMES
    assert len(set(titles.values())) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_as_it_says(name: str) -> None:
    result = played(name)
    assert result.outcome.differences == ()
    for beside in result.beside:
        assert beside.outcome.differences == ()
    assert result.as_expected


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_told_as_a_talk(name: str) -> None:
    """Captions of one to three or four sentences, positions in order, an explanation; and it is short."""
    scenario, steps = load_scenario(name), played(name).steps
    positions = [step.position for step in steps]
    assert len(steps) >= 4
    assert positions == sorted(positions)
    assert positions[-1] == played(name).recording.end
    assert all(30 <= len(step.caption) <= 330 for step in steps if step.position < positions[-1])
    assert len(scenario.expected.explanation) > 80
    assert positions[-1] < 150_000
    assert all(0 <= step.cpu < scenario.cpus for step in steps)


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_has_its_remedy_beside_it(name: str) -> None:
    """What breaks does so for the reason that is given: the one option or edit less, and it does not."""
    result = played(name)
    if result.outcome.expected not in (OutcomeKind.BROKEN, OutcomeKind.DEADLOCK, OutcomeKind.FAULT):
        return
    kinds = {other.outcome.found.kind for other in result.beside}
    # The scenario aba has its remedy in a scenario of its own.
    assert kinds <= {OutcomeKind.FINE, OutcomeKind.RETRY}
    assert kinds or name == "aba"


#: Scenario, option that is turned round, and how it ends then.
FLIPPED = [
    ("aba", "PATCH_08", 0, OutcomeKind.FINE),
    ("null-end-marker", "PATCH_06", 1, OutcomeKind.RETRY),
    ("null-end-marker", "PATCH_08", 0, OutcomeKind.FINE),
    ("counter-wraps", "SEQUENCE_BITS", 5, OutcomeKind.RETRY),
    ("counter-wraps", "OVERFLOW_CHECK", 1, OutcomeKind.RETRY),
    ("lost-local-objects", "FLUSH_INSTALLED_SLAB", 1, OutcomeKind.FINE),
    ("preempt-count-drifts", "PEKKA_UNMATCHED_PUT_CPU", 0, OutcomeKind.FINE),
    ("preempt-count-drifts", "CONFIG_PREEMPT", 0, OutcomeKind.FINE),
    ("cpu-number-too-early", "PEKKA_EARLY_CPU", 0, OutcomeKind.FINE),
    ("bulk-alloc-and-tid", "BULK_ALLOC_TID", 1, OutcomeKind.RETRY),
]


@pytest.mark.parametrize(("name", "option", "value", "kind"), FLIPPED)
def test_it_does_not_pass_by_accident(name: str, option: str, value: int, kind: OutcomeKind) -> None:
    """With the fix, or without the feature at fault, it ends in another way and says that it does."""
    scenario = load_scenario(name)
    assert scenario.expected.kind == OutcomeKind.BROKEN
    at_once = tuple(replace(one, at=parse_anchor("before call of kmalloc")) for one in scenario.strikes)
    # Without a lockless fast path there is no exchange to strike before: strike at the beginning.
    strikes = at_once if option == "PATCH_08" else scenario.strikes
    changed = replace(
        scenario, options={**scenario.options, option: value}, steps=(), beside=(), strikes=strikes
    )
    result = play(changed)
    assert result.outcome.found.kind == kind
    assert any("expected broken" in line for line in result.outcome.differences)


@pytest.mark.parametrize("name", [name for name in NAMES if load_scenario(name).edits])
def test_without_the_edits_nothing_breaks(name: str) -> None:
    scenario = replace(load_scenario(name), steps=(), beside=())
    if scenario.expected.kind == OutcomeKind.RETRY or "instructions" in scenario.edits[0].replace:
        return  # the edits are delays; the fault is in an option, and tested there
    result = play(replace(scenario, edits=()))
    assert result.outcome.found.kind == OutcomeKind.FINE


def test_the_object_that_aba_hands_out_twice_is_the_handlers() -> None:
    result = played("aba")
    session = result.recording.session
    memory, machine = session.booted.memory, session.machine
    held = machine.read(memory.field_address(memory.global_address("held", 0), "held_objects", "of"))
    last = machine.read(memory.global_address("places") + 2 * 8)
    assert held == last
    assert (
        f"object {held:#x} was handed out 2 times, and nobody has freed it" in result.outcome.found.evidence
    )


def test_the_recording_can_be_gone_through() -> None:
    """What is seen at a step is what its anchor says, and the end is the same again."""
    result = played("aba")
    recording = result.recording
    end, at_end = recording.end, recording.trace_hash
    seen = {}
    for step in reversed(result.steps):
        recording.seek(step.position)
        snapshot = recording.session.snapshot()
        seen[step.anchor] = [frame.function for frame in snapshot.cpus[0].frames]
    assert seen["slab_alloc, before cmpxchg_local, in task"][-1] == "slab_alloc"
    assert seen["irq_alloc_alloc_free_first"][-1] != "allocate"
    assert "irq_alloc_alloc_free_first" in seen["irq_alloc_alloc_free_first"]
    recording.seek(end)
    assert recording.trace_hash == at_end


def test_playing_twice_is_the_same_run() -> None:
    first, second = played("bulk-alloc-and-tid"), play(load_scenario("bulk-alloc-and-tid"))
    assert first.recording.trace_hash == second.recording.trace_hash
    assert first.steps == second.steps


def test_stops_do_not_alter_the_run() -> None:
    """Without steps, and so without any of their stops, it is the same run micro-op for micro-op."""
    scenario = load_scenario("partial-lists")
    plain = play(replace(scenario, steps=(), beside=()))
    assert plain.recording.trace_hash == played("partial-lists").recording.trace_hash


def test_three_interrupts_are_nested_and_three_exchanges_fail() -> None:
    result = played("three-deep-retries")
    recording = result.recording
    depths = []
    for step in result.steps:
        recording.seek(step.position)
        depths.append(recording.session.machine.cpu_word(0, L.C_IRQ_DEPTH))
    assert max(depths) == 3
    assert result.outcome.found.counters["CMPXCHG_FAILED"] == 3


def test_a_session_file_brings_a_scenario_back(tmp_path: Path) -> None:
    result = play(load_scenario("cpu-number-too-early"))
    position = result.steps[1].position
    result.recording.seek(position)
    path = tmp_path / "talk.slubviz"
    save_session(result.recording, path, SessionExtras(scenario=result.scenario.text))
    loaded = load_session(path, scenario_session=scenario_session)
    assert loaded.mismatch is None
    assert loaded.recording.position == position
    assert loaded.recording.changes == result.recording.changes


# --- the documentation --------------------------------------------------------------------------------


def documentation() -> str:
    return (Path(__file__).resolve().parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")


def test_the_example_of_the_documentation_runs_as_it_says() -> None:
    example = documentation().split("<!-- example -->\n```toml\n")[1].split("```")[0]
    result = play(parse_scenario(example, "example"))
    assert result.outcome.differences == ()
    assert result.as_expected


def test_the_documentation_lists_every_scenario_with_its_end() -> None:
    listed = {}
    for line in documentation().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3 and cells[2] in list(OutcomeKind):
            listed[cells[0].strip("`")] = cells[2]
    assert listed == {name: str(load_scenario(name).expected.kind) for name in scenario_files()}
