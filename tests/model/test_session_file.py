"""Session files: what was saved comes back, exactly; what is wrong is told; nothing is executed."""

from __future__ import annotations

import copy
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slubviz.hw.machine_file import CacheGeometry
from slubviz.model.errors import UserError
from slubviz.model.kernel_source import allocator_text
from slubviz.model.kernels import load_kernel
from slubviz.model.machine_text import cpus_of, machine_text
from slubviz.model.machines import load_machine, machine_files
from slubviz.model.requests import SessionSpec
from slubviz.model.scenarios import load_scenario
from slubviz.model.scenarios.job import session_of
from slubviz.model.session import Session
from slubviz.model.travel import session_file, session_file_replay
from slubviz.model.travel.bookmarks import (
    Bookmark,
    add_bookmark,
    neighbour,
    remove_bookmark,
    rename_bookmark,
)
from slubviz.model.travel.changes import Change, Inject, Migrate, SetOption, WriteRegister, WriteWord
from slubviz.model.travel.recording import Recording
from slubviz.model.travel.session_file import (
    SessionExtras,
    SessionFileError,
    load_session,
    read_session,
    save_session,
    session_bytes,
)
from slubviz.model.travel.session_file_format import decode, encode, one_line, plain_text
from slubviz.model.travel.session_file_reader import MOST_BYTES
from slubviz.model.travel.session_file_replay import LoadCancelled, proof_of, replay

SMALL = SessionSpec("e5345_8p", "slub", "D", (64,), ops=30, seed=1, cpus=4)
SPECS = [
    SMALL,
    replace(SMALL, kernel="slub[1,6,8]", test="E", handlers=True),
    replace(SMALL, kernel="slub-2.6.25", test="C", seed=7, options={"MIN_PARTIAL": 3, "slub_max_order": 0}),
    replace(SMALL, kernel="slab", test="F"),
    replace(SMALL, kernel="slub-cpu-partial", test="F", machine="ia64_8p_4n", cpus=8, ops=10),
    replace(SMALL, kernel="slub-seq", test="A", tests=("A", "B"), warm_up=True, cpus=1, check=True),
    replace(SMALL, kernel="slub-bulk", test="bulk", sizes=(), objects=(8,), machine="i7_4790k", cpus=None),
    replace(SMALL, kernel="slub-o", machine="p4_3ghz_up", test="A", cpus=None),
]
EXTRAS = SessionExtras(("slub.py:212", "lock contended if cpu == 2"), ("0x1234",), "title = 'x'\n")


def recording_of(spec: SessionSpec, machine=None) -> Recording:
    recording = Recording(Session(spec, machine), budget_bytes=16 << 20)
    recording.boot()
    return recording


def with_branches(spec: SessionSpec) -> Recording:
    """A run with changes of several kinds on three branches, the cursor in the middle of one."""
    recording = recording_of(spec)
    cpus = recording.session.machine_spec.cpus
    recording.run(700)
    recording.change(Inject(cpus - 1, "irq_alloc", (64,)))
    recording.run(2_000)
    recording.seek(1_500)
    recording.change(Inject(0, "irq_alloc", (32,), period_cycles=900, spread_cycles=100, seed=3, count=2))
    recording.run(1_000)
    recording.change(WriteWord(recording.session.booted.memory.global_address("results", 0), 77))
    recording.run(500)
    recording.switch(0, 2_200)
    recording.change(Inject(0, "irq_alloc", (64,)))
    recording.run(600)
    recording.rename(2, "late")
    recording.switch(1, 2_100)
    add_bookmark(recording.bookmarks, 1, 1_600, "in the handler", "one\ntwo")
    add_bookmark(recording.bookmarks, 0, 0, "start")
    return recording


def session_with_text(text: str, spec: SessionSpec) -> Session:
    """Stands for what makes the session of a scenario."""
    assert text == EXTRAS.scenario
    return Session(spec)


def everything(recording: Recording) -> tuple:
    """What a loaded session has in common with the saved one."""
    progress = recording.session.progress()
    return (
        recording.branches,
        recording.branch.number,
        recording.position,
        recording.bookmarks,
        recording.changes,
        progress.results,
        progress.fault,
        progress.finished,
        progress.phase_index,
        progress.sample_operations,
        progress.sample_cycles,
        progress.clock_before_millicycles,
    )


def same_state(a: Recording, b: Recording) -> None:
    np.testing.assert_array_equal(a.session.machine.state, b.session.machine.state)
    np.testing.assert_array_equal(a.session.machine.code, b.session.machine.code)


# --- there and back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.kernel}-{spec.test}")
def test_a_loaded_session_is_the_saved_one_in_every_array(spec: SessionSpec, tmp_path: Path) -> None:
    recording = with_branches(spec)
    path = tmp_path / "run.slubviz"
    before = proof_of(recording.session)
    save_session(recording, path, EXTRAS)
    assert proof_of(recording.session) == before  # saving looks at all branches and comes back
    loaded = load_session(path, scenario_session=session_with_text)
    assert loaded.mismatch is None
    assert loaded.notes == ()
    assert everything(loaded.recording) == everything(recording)
    same_state(loaded.recording, recording)
    for number, branch in enumerate(recording.branches):
        for place in (branch.end, branch.fork_position, (branch.fork_position + branch.end) // 2):
            recording.switch(number, place)
            loaded.recording.switch(number, place)
            same_state(loaded.recording, recording)
    # A built-in kernel and machine stay what they are; nothing of the request is lost.
    assert loaded.spec == replace(
        spec, kernel=load_kernel(spec.kernel).name, cpus=loaded.file.machine.cpus, tests=spec.tests
    )
    assert len(path.read_bytes()) < 100_000


@pytest.mark.parametrize("spec", SPECS[:5], ids=lambda spec: f"{spec.kernel}-{spec.test}")
def test_saving_a_loaded_session_gives_the_same_bytes(spec: SessionSpec, tmp_path: Path) -> None:
    path = tmp_path / "run.slubviz"
    save_session(with_branches(spec), path, EXTRAS)
    loaded = load_session(path, scenario_session=session_with_text)
    extras = SessionExtras(loaded.file.breakpoints, loaded.file.watches, loaded.file.scenario)
    assert extras == EXTRAS
    assert session_bytes(loaded.recording, extras) == path.read_bytes()


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_random_histories_come_back(data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from([SMALL, replace(SMALL, kernel="slub-cpu-partial"), SPECS[3]]))
    recording = recording_of(replace(spec, cpus=2, ops=12))
    for _ in range(data.draw(st.integers(1, 8))):
        move = data.draw(st.sampled_from(["run", "seek", "inject", "switch", "bookmark"]))
        if move == "run":
            recording.run(data.draw(st.integers(1, 3_000)))
        elif move == "seek":
            recording.seek(data.draw(st.integers(0, recording.end)))
        elif move == "switch":
            recording.switch(data.draw(st.integers(0, len(recording.branches) - 1)))
        elif move == "bookmark":
            name = data.draw(st.text(max_size=5))
            recording.bookmarks.append(Bookmark(recording.branch.number, recording.position, name, name))
        elif not recording.session.finished:
            recording.change(Inject(data.draw(st.integers(0, 1)), "irq_alloc", (64,)))
    saved = session_bytes(recording)
    loaded = replay(decode(saved))
    assert loaded.mismatch is None
    same_state(loaded.recording, recording)
    assert loaded.recording.branches == recording.branches
    assert session_bytes(loaded.recording) == saved


def test_a_failed_run_fails_again_and_its_fork_is_made_again(tmp_path: Path) -> None:
    recording = recording_of(replace(SMALL, cpus=1, test="A"))
    recording.run(400)
    register = recording.session.booted.program
    assert register is not None
    recording.change(WriteRegister(0, 0, 0, 3))
    for register in range(1, 6):
        recording.change(WriteRegister(0, 0, register, 3))
    recording.run(5_000)
    assert recording.session.fault
    failed_at = recording.position
    recording.change(Inject(0, "irq_alloc", (64,)))
    assert recording.branch.number == 1
    recording.run(50)
    path = tmp_path / "failed.slubviz"
    save_session(recording, path)
    assert read_session(path).branches[0].fault
    loaded = load_session(path)
    assert loaded.mismatch is None
    assert loaded.recording.branches == recording.branches
    loaded.recording.switch(0, failed_at)
    recording.switch(0, failed_at)
    assert loaded.recording.session.fault == recording.session.fault != ""


def test_every_kind_of_change_comes_back() -> None:
    """By their text alone: whether a change can be made is checked when it is made."""
    changes = (
        Change(0, Inject(1, "irq_alloc", (64,), 500, 20.5, -3, 0)),
        Change(5, WriteWord(4096, -1, 4)),
        Change(5, WriteRegister(3, 1, 7, 1 << 40)),
        Change(9, SetOption("MIN_PARTIAL", 3)),
        Change(9, Migrate(0, 3)),
    )
    file = decode(session_bytes(recording_of(SMALL)))
    branch = replace(file.branches[0], changes=changes, end=9)
    again = decode(encode(replace(file, branches=(branch,))))
    assert again.branches[0].changes == changes
    numpy_numbers = Change(0, Inject(np.int64(1), "irq_alloc", [np.int64(64)], 500, 20.5, -3, 0))  # type: ignore[arg-type]
    same = replace(file, branches=(replace(branch, changes=(numpy_numbers, *changes[1:])),))
    assert encode(same) == encode(replace(file, branches=(branch,)))


def test_a_finished_run_is_finished_again(tmp_path: Path) -> None:
    recording = recording_of(replace(SMALL, cpus=2, ops=5))
    recording.run(10**9)
    save_session(recording, tmp_path / "end.slubviz")
    loaded = load_session(tmp_path / "end.slubviz")
    assert loaded.mismatch is None
    assert loaded.recording.session.finished
    assert loaded.recording.session.results == recording.session.results


# --- by content ------------------------------------------------------------------------------------------


def test_files_of_the_user_need_not_exist_any_more(tmp_path: Path) -> None:
    kernel, machine, handler = (tmp_path / name for name in ("mine.py", "pc.toml", "more.py"))
    kernel.write_text(allocator_text(load_kernel("slub-seq")).replace("MIN_PARTIAL", "MIN_PARTIAL"))
    text = Path(machine_files()["amd64"]).read_text(encoding="utf-8")
    machine.write_text(text.replace('name = "amd64"', 'name = "pc"'), encoding="utf-8")
    handler.write_text('def my_handler():\n    """Handler: nothing much."""\n    instructions(3)\n')
    spec = replace(
        SMALL, kernel=str(kernel), machine=str(machine), handlers=True, handler_files=(str(handler),)
    )
    recording = recording_of(spec)
    recording.run(300)
    recording.change(Inject(1, "my_handler"))
    recording.run(300)
    for file in (kernel, machine, handler):
        file.unlink()
    save_session(recording, tmp_path / "run.slubviz")
    loaded = load_session(tmp_path / "run.slubviz")
    assert loaded.mismatch is None
    assert loaded.notes == ()
    same_state(loaded.recording, recording)
    assert loaded.recording.session.variant.name == "mine"
    assert loaded.recording.session.variant.family == "slub-2.6.25"
    assert session_bytes(loaded.recording) == (tmp_path / "run.slubviz").read_bytes()
    assert str(tmp_path) not in (tmp_path / "run.slubviz").read_text(encoding="utf-8")
    loaded.recording.boot()  # and it can start anew from what it holds
    assert loaded.recording.position == 0


@pytest.mark.parametrize("kernel", ["slub", "slub+", "slub-2.6.25", "slub-bulk", "slab", "slub[1,6,8]"])
def test_a_built_in_kernel_that_has_changed_runs_from_the_text_in_the_file(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = recording_of(replace(SMALL, kernel=kernel))
    recording.run(3_000)
    save_session(recording, tmp_path / "run.slubviz")
    monkeypatch.setattr(session_file_replay, "allocator_text", lambda variant: "another program")
    loaded = load_session(tmp_path / "run.slubviz")
    assert loaded.notes == (f"kernel {kernel} has changed since: the program in the file is used",)
    assert loaded.mismatch is None
    np.testing.assert_array_equal(loaded.recording.session.machine.state, recording.session.machine.state)
    assert loaded.recording.session.variant.name == kernel
    assert session_bytes(loaded.recording) == (tmp_path / "run.slubviz").read_bytes()


def test_a_machine_that_differs_from_the_one_of_its_name_is_kept(tmp_path: Path) -> None:
    machine = replace(load_machine("e5345_8p", 4), l2=CacheGeometry(64 * 1024, 16)).with_costs({"load": 2.0})
    recording = recording_of(SMALL, machine)
    recording.run(1_000)
    save_session(recording, tmp_path / "run.slubviz")
    loaded = load_session(tmp_path / "run.slubviz")
    assert loaded.recording.session.machine_spec == machine
    assert loaded.notes == ("machine e5345_8p has changed since: the one in the file is used",)
    assert loaded.mismatch is None
    same_state(loaded.recording, recording)


@pytest.mark.parametrize("name", sorted(machine_files()))
@pytest.mark.parametrize("cpus", [None, 1, 2, 3, 8, 16])
def test_a_machine_as_text_reads_back_as_the_same(name: str, cpus: int | None) -> None:
    if cpus not in (None, 1) and name.startswith("p4"):
        pytest.skip("runs a kernel for one CPU")
    machine = load_machine(name, cpus)
    text = machine_text(machine)
    assert load_machine("x", cpus_of(machine, text), text) == machine


def test_strange_names_are_made_fit_to_be_saved(tmp_path: Path) -> None:
    recording = recording_of(SMALL)
    recording.bookmarks.append(Bookmark(0, 0, "a\x1b[31m\nb" + "x" * 300, "n\x00ote\ud800"))
    recording.rename(0, "\n")
    save_session(recording, tmp_path / "run.slubviz", SessionExtras(("one\ntwo", "  ")))
    file = read_session(tmp_path / "run.slubviz")
    assert file.bookmarks[0].name == "a [31m b" + "x" * 191 + "…"
    assert file.bookmarks[0].note == "note"
    assert file.branches[0].name == "branch 0"
    assert file.breakpoints == ("one two",)


@given(st.text())
def test_cleaned_texts_are_what_the_format_takes(text: str) -> None:
    assert one_line(text).isprintable()
    assert len(one_line(text)) <= 200
    assert one_line(one_line(text)) == one_line(text)
    assert plain_text(plain_text(text)) == plain_text(text)
    plain_text(text).encode()


def test_saving_fails_in_one_line_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "run.slubviz"
    path.write_text("old")
    recording = recording_of(SMALL)
    recording.bookmarks += [Bookmark(0, 0, str(i)) for i in range(10_001)]
    with pytest.raises(UserError, match=r"^this session cannot be saved: bookmarks: has 10,001 entries"):
        save_session(recording, path)
    assert path.read_text() == "old"
    with pytest.raises(UserError, match="no_folder"):
        save_session(recording_of(SMALL), tmp_path / "no_folder" / "run.slubviz")


def test_a_session_from_a_scenario_holds_its_text(tmp_path: Path) -> None:
    scenario = load_scenario("aba")
    recording = Recording(session_of(scenario), budget_bytes=16 << 20)
    recording.boot()
    recording.run(200)
    with pytest.raises(UserError, match="cannot be saved: it runs the program of a scenario, whose text"):
        session_bytes(recording)
    path = tmp_path / "scenario.slubviz"
    save_session(recording, path, SessionExtras(scenario=scenario.text))
    loaded = load_session(path)
    assert (loaded.mismatch, loaded.notes) == (None, ())
    same_state(loaded.recording, recording)
    assert session_bytes(loaded.recording, SessionExtras(scenario=scenario.text)) == path.read_bytes()


# --- another run ------------------------------------------------------------------------------------------


def document_of(recording: Recording) -> dict[str, Any]:
    return json.loads(session_bytes(recording))


def load_document(document: object) -> session_file.LoadedSession:
    return replay(decode(json.dumps(document).encode()))


@pytest.fixture(scope="module")
def saved() -> dict[str, Any]:
    return document_of(with_branches(SMALL))


def test_a_run_that_is_not_the_saved_one_is_open_and_says_so(saved: dict[str, Any]) -> None:
    document = copy.deepcopy(saved)
    document["workload"]["seed"] = 2
    loaded = load_document(document)
    assert loaded.mismatch is not None
    end = saved["branches"][0]["end"]
    assert loaded.mismatch.startswith(
        f"this is not the run that was saved: at the end of branch 0, micro-op {end:,}, the "
    )
    assert loaded.mismatch.endswith("Nothing that the file names has changed since: it may have been edited")
    assert (loaded.recording.branch.number, loaded.recording.position) == (1, 2_100)


def test_another_version_and_other_workloads_are_named_as_the_cause(saved: dict[str, Any]) -> None:
    document = copy.deepcopy(saved)
    document["branches"][2]["trace_hash"] = "0" * 16
    document["slubviz"] = "0.0.9"
    document["other_programs_sha256"] = "0" * 64
    loaded = load_document(document)
    assert loaded.mismatch is not None
    found = saved["branches"][2]
    assert loaded.mismatch == (
        f"this is not the run that was saved: at the end of branch 2, micro-op {found['end']:,}, "
        f"the trace is {found['trace_hash']}, it was 0000000000000000. "
        "Slubviz 0.0.9 saved it and this is 0.1.0 and the page allocator or the workloads have changed since"
    )
    assert len(loaded.recording.branches) == 3


def test_another_version_that_gives_the_same_run_is_no_mismatch(saved: dict[str, Any]) -> None:
    document = copy.deepcopy(saved)
    document["slubviz"] = "9.9"
    assert load_document(document).mismatch is None


def test_only_the_state_differs(saved: dict[str, Any]) -> None:
    document = copy.deepcopy(saved)
    document["cursor"]["state_hash"] = "0" * 64
    mismatch = load_document(document).mismatch
    assert mismatch is not None
    assert "at the cursor, micro-op 2,100, the machine is in another state" in mismatch


def test_places_beyond_the_end_of_the_run_are_told_and_the_rest_is_open(saved: dict[str, Any]) -> None:
    document = copy.deepcopy(saved)
    document["branches"][0]["end"] = 10**12
    loaded = load_document(document)
    assert loaded.mismatch is not None
    assert "branches[0].end: 1,000,000,000,000 is never reached, the run ends at" in loaded.mismatch
    assert loaded.recording.session.finished
    assert len(loaded.recording.branches) == 1
    assert all(mark.branch == 0 for mark in loaded.recording.bookmarks)


def test_a_change_that_cannot_be_made_ends_its_branch(saved: dict[str, Any]) -> None:
    document = copy.deepcopy(saved)
    change = document["branches"][1]["changes"][1]
    change["address"] = 8  # the NULL page
    loaded = load_document(document)
    assert loaded.mismatch is not None
    assert "branches[1].changes[1] cannot be made: no memory at address 0x8" in loaded.mismatch
    assert len(loaded.recording.branches) == 2
    assert loaded.recording.branch.number == 1


def test_loading_can_be_cancelled_and_tells_how_far_it_is(saved: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run.slubviz"
    path.write_text(json.dumps(saved))
    stop = threading.Event()
    stop.set()
    with pytest.raises(LoadCancelled):
        load_session(path, stop)
    shares: list[float] = []
    load_session(path, threading.Event(), shares.append)
    assert shares == sorted(shares)
    assert shares[0] > 0
    assert shares[-1] <= 1


# --- hostile and damaged files -----------------------------------------------------------------------------


def set_at(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return edit


def delete_at(*path: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return edit


CHANGE = ("branches", 1, "changes", 0)
WRONG = [
    (
        set_at("format", value=2),
        "format: is 2; this slubviz 0.1.0 reads format 1: the file needs slubviz 0.1.0",
    ),
    (set_at("format", value=1.0), "format: is 1; give a whole number from 1 to"),
    (set_at("format", value=True), "format: is true; give"),
    (delete_at("format"), "format: is missing; give a whole number"),
    (set_at("colour", value=1), "colour: is not known here (known: bookmarks, branches,"),
    (set_at("bookmark", value=[]), "bookmark: is not known here; did you mean bookmarks?"),
    (set_at("cursor", "positoin", value=1), "cursor.positoin: is not known here; did you mean position?"),
    (set_at("a\x1b[31m", value=1), r"'a\x1b[31m': is not known here"),
    (set_at("machine", value=[]), "machine: is a list of 0; give an object in braces"),
    (set_at("machine", "cpus", value=0), "machine.cpus: is 0; give a whole number from 1 to 4,096"),
    (set_at("machine", "cpus", value="4"), "machine.cpus: is '4'; give a whole number"),
    (set_at("machine", "text", value="x = ["), "machine: machine e5345_8p: not a TOML file:"),
    (set_at("machine", "text", value=""), "machine.text: is empty; give the machine file"),
    (set_at("kernel", "sha256", value="0" * 64), "kernel.sha256: is not the hash of the text"),
    (set_at("kernel", "sha256", value="xyz"), "kernel.sha256: is 'xyz'; give 64 hexadecimal digits"),
    (set_at("workload", "test", value="Z"), "workload: unknown test 'Z'"),
    (set_at("workload", "ops", value=0), "workload.ops: is 0; give a whole number from 1 on"),
    (
        set_at("workload", "ops", value=1 << 62),
        "workload: 4,611,686,018,427,387,904 operations on 4 CPUs are",
    ),
    (set_at("workload", "ops", value=10**30), "the number 10000000000000000000… has 31 digits"),
    (set_at("workload", "ops", value=1e3), "workload.ops: is 1000; give a whole number"),
    (set_at("workload", "sizes", value=[64] * 1001), "workload.sizes: has 1,001 entries; at most 1,000"),
    (set_at("workload", "sizes", value=[1 << 40]), "workload: size 1099511627776 is out of range"),
    (set_at("workload", "sizes", value=[64, "8"]), "workload.sizes[1]: is '8'; give a whole number"),
    (set_at("workload", "options", value={"NOPE": 1}), "kernel: unknown option of kernel slub: 'NOPE'"),
    (
        set_at("workload", "options", value={"a b": 1}),
        "workload.options: has the name 'a b', which is no option",
    ),
    (set_at("workload", "warm_up", value=1), "workload.warm_up: is 1; give true or false"),
    (set_at("branches", value=[]), "branches: is empty; a session has at least branch 0"),
    (set_at("branches", value={}), "branches: is an object; give a list in brackets"),
    (set_at("branches", 0, "parent", value=0), "branches[0]: is the run as it started"),
    (
        set_at("branches", 1, "parent", value=1),
        "branches[1].parent: is 1; give one of the branches before it, 0",
    ),
    (set_at("branches", 1, "parent", value=None), "branches[1].parent: is null; give one of"),
    (set_at("branches", 1, "end", value=-1), "branches[1].end: is -1; give a whole number from 0 to"),
    (
        set_at("branches", 1, "end", value=100),
        "branches[1].changes[0].position: is 1,500; changes are in order",
    ),
    (
        set_at("branches", 0, "end", value=700),
        "branches[1].fork_position: is 1,500; branch 0 can be left from 0 to 699",
    ),
    (set_at("branches", 1, "changes", value=[]), "branches[1].changes: a branch begins with a change at its"),
    (
        set_at("branches", 1, "name", value="a\nb"),
        r"branches[1].name: is 'a\nb'; give one line of at most 200",
    ),
    (
        set_at("branches", 0, "trace_hash", value="G" * 16),
        "branches[0].trace_hash: is 'GGGGGGGGGGGGGGGG'; give 16",
    ),
    (
        set_at(*CHANGE, "cpu", value=9),
        "branches[1].changes[0].cpu: 9 does not exist; the machine has CPUs 0 to 3",
    ),
    (
        set_at(*CHANGE, "cpu", value=-1),
        "branches[1].changes[0].cpu: is -1; give a whole number from 0 to 4,095",
    ),
    (
        set_at(*CHANGE, "handler", value="irq_aloc"),
        "branches[1].changes[0].handler: unknown handler 'irq_aloc'; did you mean irq",
    ),
    (set_at(*CHANGE, "arguments", value=[]), "branches[1].changes[0].arguments: are 0; irq_alloc takes 1"),
    (set_at(*CHANGE, "arguments", value=[1 << 63]), "branches[1].changes[0].arguments[0]: is 9,223,372"),
    (
        set_at(*CHANGE, "period_cycles", value=-1.0),
        "branches[1].changes[0].period_cycles: is -1; give a number from 0",
    ),
    (set_at(*CHANGE, "period_cycles", value=float("nan")), "NaN is no number that a session file can hold"),
    (set_at(*CHANGE, "period_cycles", value=float("inf")), "Infinity is no number"),
    (
        set_at(*CHANGE, "kind", value="__import__"),
        "branches[1].changes[0].kind: is '__import__', which is no kind of change; known are",
    ),
    (set_at(*CHANGE, "position", value=1_501), "branches[1].changes: a branch begins with a change at its"),
    (
        set_at("branches", 1, "changes", 1, "position", value=1_499),
        "branches[1].changes[1].position: is 1,499; changes are in order, here from 1,500",
    ),
    (set_at("branches", 1, "changes", 1, "kind", value="migrate"), "branches[1].changes[1].cpu: is missing"),
    (set_at("cursor", "branch", value=3), "cursor.branch: 3 does not exist; the session has branches 0 to 2"),
    (set_at("cursor", "position", value=10**9), "cursor.position: is 1,000,000,000; branch 1 ends at"),
    (set_at("cursor", "position", value=-5), "cursor.position: is -5; give a whole number from 0 to"),
    (set_at("bookmarks", 0, "branch", value=3), "bookmarks[0].branch: 3 does not exist; the session has"),
    (
        set_at("bookmarks", 1, "note", value="\x07"),
        r"bookmarks[1].note: has the character '\x07', which no text has",
    ),
    (set_at("breakpoints", value=["x"] * 1001), "breakpoints: has 1,001 entries; at most 1,000 are possible"),
    (set_at("watches", value=[1]), "watches[0]: is 1; give one line"),
]


@pytest.mark.parametrize(("edit", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_told_with_its_place(
    edit: Callable[[dict[str, Any]], None], message: str, saved: dict[str, Any], tmp_path: Path
) -> None:
    document = copy.deepcopy(saved)
    edit(document)
    path = tmp_path / "wrong.slubviz"
    path.write_text(json.dumps(document))
    with pytest.raises(SessionFileError) as caught:
        load_session(path)
    text = str(caught.value)
    assert text.startswith(f"'{path}': {message}")
    assert "\n" not in text
    assert len(text) < 1_500


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON: line 1, column 1: Expecting value"),
        (b"{", "not JSON: line 1, column 2: ends too early"),
        (b'{"format": 1, "slubviz"', "not JSON: line 1, column 24: ends too early"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not a text in UTF-8 (byte 0)"),
        (b"\xff\xfe{\x00}\x00", "not a text in UTF-8 (byte 0)"),
        (b"[1, 2]", "is not a session: the document is no object in braces"),
        (b"null", "is not a session"),
        (b"[" * 100_000, "is nested too deeply; no session is"),
        (b'{"a":' * 100_000, "is nested too deeply; no session is"),
        (b'{"format": 1, "format": 1}', "the key 'format' is given twice in one object"),
        (b'{"format": ' + b"9" * 5_000 + b"}", "the number 99999999999999999999… has 5,000 digits"),
        (b'{"format": NaN}', "NaN is no number"),
        (b'{"format": 1e999}', "format: is inf; give a whole number"),
        (b" " * (MOST_BYTES + 1), "is too large; a session file has at most 8,388,608 bytes"),
        (b'import os; os.system("touch x")', "not JSON: line 1, column 1"),
    ],
    ids=range(15),
)
def test_what_is_no_session_file_is_told(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "no.slubviz"
    path.write_bytes(data)
    with pytest.raises(SessionFileError) as caught:
        load_session(path)
    assert str(caught.value).startswith(f"'{path}': {message}")


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "is a directory"),
        ("a\0b", "is no"),
    ):
        with pytest.raises(SessionFileError, match=reason):
            load_session(path)


def test_a_million_changes_are_refused_before_anything_runs(
    saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = copy.deepcopy(saved)
    change = json.dumps(document["branches"][1]["changes"][0])
    text = json.dumps(document)
    many = text.replace(change, ", ".join([change] * 20_000), 1).encode()
    monkeypatch.setattr(session_file_replay, "Session", None)
    with pytest.raises(
        SessionFileError, match=r"^branches\[1\]\.changes: has 20,001 entries; at most 10,000"
    ):
        decode(many)


def test_a_truncated_file_is_told_wherever_it_is_cut(saved: dict[str, Any]) -> None:
    data = json.dumps(saved).encode()
    for length in range(0, len(data), 499):
        with pytest.raises(SessionFileError):
            decode(data[:length])


def test_a_program_in_a_file_is_never_python(saved: dict[str, Any], tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    document = copy.deepcopy(saved)
    text = f"import pathlib\npathlib.Path({str(trap)!r}).touch()\n"
    document["kernel"] = {"name": "mine.py", "sha256": session_file_replay.sha256(text), "text": text}
    with pytest.raises(SessionFileError, match=r"^workload: |^kernel: "):
        load_document(document)
    document = copy.deepcopy(saved)
    document["handlers"]["files"] = [
        {"name": "evil.py", "sha256": session_file_replay.sha256(text), "text": text}
    ]
    with pytest.raises(SessionFileError, match=r"^kernel: evil.py:1:1: "):
        load_document(document)
    assert not trap.exists()


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory")])
def test_a_run_too_large_for_this_computer_is_told(
    error: Exception, saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def boot(recording: Recording) -> None:
        raise error

    monkeypatch.setattr(Recording, "boot", boot)
    with pytest.raises(SessionFileError, match="this computer has no memory for the run"):
        load_document(saved)


PLACES = st.sampled_from(
    [
        ("machine", "name"),
        ("machine", "cpus"),
        ("kernel", "name"),
        ("kernel", "text"),
        ("workload", "test"),
        ("workload", "tests"),
        ("workload", "ops"),
        ("workload", "seed"),
        ("workload", "options"),
        ("workload", "sizes"),
        ("workload", "objects"),
        ("handlers", "files"),
        ("scenario",),
        ("branches",),
        ("branches", 1),
        ("branches", 1, "changes", 0),
        ("branches", 1, "changes", 0, "kind"),
        ("branches", 1, "changes", 0, "position"),
        ("branches", 1, "fork_position"),
        ("branches", 2, "parent"),
        ("branches", 1, "changes", 1, "address"),
        ("branches", 1, "changes", 1, "value"),
        ("bookmarks",),
        ("bookmarks", 0, "branch"),
        ("cursor",),
        ("cursor", "position"),
        ("cursor", "branch"),
        ("watches",),
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.integers(-3, 3_000)
    | st.floats()
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=PLACES, value=VALUES)
def test_any_value_anywhere_is_read_or_refused_in_one_line(
    saved: dict[str, Any], place: tuple[Any, ...], value: Any
) -> None:
    document = copy.deepcopy(saved)
    set_at(*place, value=value)(document)
    stop = threading.Event()
    stop.set()  # nothing is run: what the file says is only checked
    with pytest.raises((LoadCancelled, SessionFileError)) as caught:
        replay(decode(json.dumps(document).encode()), stop)
    assert "\n" not in str(caught.value)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_are_read_or_refused(saved: dict[str, Any], data: st.DataObject) -> None:
    damaged = bytearray(json.dumps({**saved, "kernel": {"name": "x"}}).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with pytest.raises(SessionFileError):
        decode(bytes(damaged))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SessionFileError):
        decode(data)


# --- bookmarks -------------------------------------------------------------------------------------------


def test_bookmarks_are_kept_in_order_and_have_names_of_their_own() -> None:
    marks: list[Bookmark] = []
    add_bookmark(marks, 1, 5)
    add_bookmark(marks, 0, 9, " end ", "a note")
    add_bookmark(marks, 0, 3)
    assert [(mark.branch, mark.position, mark.name) for mark in marks] == [
        (0, 3, "bookmark 3"),
        (0, 9, "end"),
        (1, 5, "bookmark 1"),
    ]
    with pytest.raises(UserError, match="there is a bookmark end already"):
        add_bookmark(marks, 0, 1, "end")
    assert rename_bookmark(marks, "end", "finish") == Bookmark(0, 9, "finish", "a note")
    assert rename_bookmark(marks, "finish", "finish", "") == Bookmark(0, 9, "finish", "")
    with pytest.raises(UserError, match="did you mean finish"):
        rename_bookmark(marks, "finsh", "x")
    with pytest.raises(UserError, match="already"):
        rename_bookmark(marks, "finish", "bookmark 1")
    with pytest.raises(UserError, match="needs a name"):
        rename_bookmark(marks, "finish", " ")
    assert neighbour(marks, 0, 3, 1) == marks[1]
    assert neighbour(marks, 0, 9, 1) is None
    assert neighbour(marks, 0, 9, -1) == marks[0]
    assert neighbour(marks, 1, 6, -1) == marks[2]
    assert remove_bookmark(marks, "finish").position == 9
    assert len(marks) == 2
    assert add_bookmark(marks, 0, 3).name == "bookmark 4"


def test_a_key_given_twice_among_very_many_is_told_at_once() -> None:
    """A pair by pair search would take hours."""
    keys = ",".join(f'"k{number}":0' for number in range(500_000))
    with pytest.raises(SessionFileError, match="the key 'k9' is given twice"):
        decode(f'{{{keys},"k9":1}}'.encode())


def test_an_option_value_that_is_out_of_bounds_ends_its_branch(saved: dict[str, Any]) -> None:
    document = copy.deepcopy(saved)
    place = document["branches"][1]["changes"][0]["position"]
    wrong = {"position": place, "kind": "set_option", "name": "MIN_PARTIAL", "value": -5}
    document["branches"][1]["changes"][0] = wrong
    mismatch = load_document(document).mismatch
    assert mismatch is not None
    assert "branches[1].changes[0] cannot be made: " in mismatch
    assert "MIN_PARTIAL goes from 0" in mismatch


def test_a_bookmark_ahead_of_a_run_that_was_started_again_is_kept(tmp_path: Path) -> None:
    recording = Recording(Session(SessionSpec("e5345_8p", "slub", "D", (64,), ops=20, seed=1, cpus=2)))
    recording.boot()
    recording.run(1_000)
    add_bookmark(recording.bookmarks, 0, 1_000, "here")
    recording.boot()
    save_session(recording, tmp_path / "again.slubviz")
    loaded = load_session(tmp_path / "again.slubviz").recording
    assert loaded.bookmarks == recording.bookmarks
    loaded.switch(0, 1_000)
    assert loaded.position == 1_000


def test_a_pipe_that_nobody_writes_to_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.slubviz")
    with pytest.raises(SessionFileError, match=r"pipe\.slubviz': is no regular file; give a session file$"):
        read_session(tmp_path / "pipe.slubviz")


def test_a_key_of_a_million_letters_is_told_in_a_short_line(saved: dict[str, Any]) -> None:
    with pytest.raises(SessionFileError, match="is not known here") as caught:
        decode(json.dumps({**saved, "a" * 1_000_000: 1}).encode())
    assert len(str(caught.value)) < 400
