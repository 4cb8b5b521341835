"""Sessions: phases, results, determinism, faults."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slubviz.hw.isa import Op, Status
from slubviz.model.errors import UserError
from slubviz.model.invariants import check
from slubviz.model.kernel_source import allocator_text
from slubviz.model.kernels import load_kernel
from slubviz.model.machines import load_machine
from slubviz.model.plan import size_below
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session, SimulationFault
from tests.model.helpers import all_idle, operation_end_pcs, session


def finished(made: Session) -> Session:
    made.run_to_end()
    return made


def test_phases_of_each_test() -> None:
    expected = {
        "AB": [("A", "kmalloc", True), ("B", "kfree", True)],
        "A": [("A", "kmalloc", True), ("B", "cleanup", False)],
        "B": [("A", "setup", False), ("B", "kfree", True)],
        "C": [("C", "kmalloc+kfree", True)],
        "D": [("D", "kmalloc", True), ("D", "cleanup", False)],
        "E": [("E", "kmalloc+kfree", True)],
        "F": [("F", "setup", False), ("F", "kfree", True)],
    }
    for tests, phases in expected.items():
        made = session(tests, (64,), 5)
        assert [(p.test, p.operation, p.measured) for p in made.phases] == phases


def test_a_cell_of_f_divides_all_frees_by_the_operations_of_one_cpu() -> None:
    made = finished(session("F", (64,), 50, cpus=4))
    cell = made.results[0]
    assert cell.counters["OPERATIONS"] == 150
    memory = made.booted.memory
    record = memory.one(memory.global_address("results", 0), "result")
    assert cell.cycles_per_op == (int(record["stop"]) - int(record["start"])) / 50


def test_same_inputs_give_the_same_trace_and_state() -> None:
    one, two = (finished(session("D", (64, 2048), 200)) for _ in range(2))
    assert one.machine.trace_hash == two.machine.trace_hash
    assert one.machine.state_hash() == two.machine.state_hash()
    assert one.results == two.results


def test_pieces_of_any_length_give_the_same_run() -> None:
    whole = finished(session("D", (512,), 60))
    pieces = session("D", (512,), 60)
    length = 1
    while not pieces.finished:
        pieces.run(length)
        length = length * 7 % 1009 + 1
    steps = session("D", (512,), 60)
    for _ in range(2000):
        steps.step()
    steps.run_to_end()
    for other in (pieces, steps):
        assert other.machine.trace_hash == whole.machine.trace_hash
        assert other.machine.state_hash() == whole.machine.state_hash()
        assert other.results == whole.results


def test_a_warm_machine_answers_sooner_than_a_cold_one() -> None:
    cold, warm = (finished(session("AB", (64,), 2000, warm_up=warm)) for warm in (False, True))
    assert warm.results[0].cycles_per_op < 0.9 * cold.results[0].cycles_per_op
    assert warm.results[0].counters["ALLOC_SLAB"] == cold.results[0].counters["ALLOC_SLAB"]
    again = finished(session("AB", (64,), 2000, warm_up=True))
    assert again.machine.state_hash() == warm.machine.state_hash()


def test_there_is_nothing_below_the_smallest_size() -> None:
    below = {size: size_below(size) for size in (1, 8, 9, 16, 64, 96, 192, 4096)}
    assert below == {1: None, 8: None, 9: 8, 16: 8, 64: 32, 96: 64, 192: 128, 4096: 2048}
    cold, warm = (finished(session("A", (8,), 50, warm_up=warm)) for warm in (False, True))
    assert cold.machine.state_hash() == warm.machine.state_hash()


def test_reset_starts_again_from_nothing() -> None:
    made = session("C", (64,), 50)
    made.run(500)
    made.reset()
    assert (made.machine.micro_ops, made.results, made.finished) == (0, [], False)
    made.run_to_end()
    assert made.results == finished(session("C", (64,), 50)).results


@pytest.mark.parametrize("kernel", ["slub", "slub+"])
def test_all_invariants_hold_after_every_operation(kernel: str) -> None:
    made = session("AB", (1024,), 25, kernel, small_caches=True)
    machine = made.machine
    for pc in operation_end_pcs(made):
        machine.set_breakpoint(pc)
    operations = 0
    while not made.finished:
        machine.skip_breakpoint()
        if made.run(10**9) != Status.BREAKPOINT:
            continue
        operations += 1
        handed_out = operations if operations <= 25 else 50 - operations
        assert check(made.booted, expected_allocated=handed_out) == []
    assert operations == 50


@pytest.mark.parametrize("kernel", ["slub", "slub+"])
@pytest.mark.parametrize("tests", ["AB", "C", "D", "E", "F"])
def test_all_invariants_hold_when_everybody_is_done(tests: str, kernel: str) -> None:
    made = finished(session(tests, (8, 96, 512, 2048, 4096, 16384), 130, kernel))
    assert all_idle(made)
    assert check(made.booted, expected_allocated=0) == []


def test_interpreted_and_compiled_engines_agree() -> None:
    """The same short run without numba: same trace, same state."""
    program = (
        "from tests.model.helpers import session\n"
        "made = session('D', (512,), 6, cpus=2, small_caches=True)\n"
        "made.run_to_end()\n"
        "print(made.machine.trace_hash, made.machine.state_hash())\n"
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env=dict(environment, NUMBA_DISABLE_JIT=disabled),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for disabled in ("0", "1")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].strip()


def user_kernel(tmp_path: Path, old: str, new: str) -> str:
    """SLUB with one thing changed, as a user's file."""
    text = allocator_text(load_kernel("slub"))
    assert old in text
    path = tmp_path / "mine.py"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return str(path)


def test_a_users_kernel_runs_under_its_own_name(tmp_path: Path) -> None:
    kernel = user_kernel(tmp_path, "MIN_PARTIAL = option(2,", "MIN_PARTIAL = option(5,")
    made = finished(session("A", (64,), 100, kernel))
    assert made.results[0].kernel == "mine"
    assert made.results[0].published_low is None
    assert made.booted.program.options["MIN_PARTIAL"].value == 5


def test_a_forgotten_unlock_is_found(tmp_path: Path) -> None:
    kernel = user_kernel(
        tmp_path,
        "    n.nr_partial -= 1\n    list_unlock(n)\n",
        "    n.nr_partial -= 1\n",
    )
    made = session("AB", (1024,), 20, kernel)
    with pytest.raises(
        SimulationFault, match=r"CPU 0 at mine\.py:\d+:\d+ in \w+: waits for a lock that it holds"
    ):
        made.run_to_end()


def test_a_deadlock_between_cpus_is_told(tmp_path: Path) -> None:
    kernel = user_kernel(
        tmp_path,
        "    if n.nr_partial == 0:\n        return 0\n",
        "    spin_lock(n.list_lock)\n    if n.nr_partial == 0:\n        return 0\n",
    )
    made = session("D", (1024,), 20, kernel, cpus=2)
    with pytest.raises(SimulationFault, match=r"deadlock: nobody can run|waits for a lock that it holds"):
        made.run_to_end()


def test_a_null_pointer_is_told_with_its_place(tmp_path: Path) -> None:
    kernel = user_kernel(tmp_path, "    page.slab = s\n", "    page.slab = NULL\n")
    made = session("AB", (64,), 200, kernel)
    with pytest.raises(SimulationFault, match=r"mine\.py:\d+:\d+ in .*NULL pointer"):
        made.run_to_end()


def test_a_marked_end_that_is_followed_is_told(tmp_path: Path) -> None:
    kernel = user_kernel(tmp_path, "        return object & 1\n", "        return object == NULL\n")
    spec = SessionSpec(
        "e5345_8p", kernel, "A", (1024,), 20, 1, options={f"PATCH_{i:02}": 1 for i in range(1, 11)}
    )
    made = Session(spec)
    with pytest.raises(SimulationFault, match="not aligned"):
        made.run_to_end()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"machine": "e5345"}, "unknown machine 'e5345'"),
        ({"kernel": "slob"}, "unknown kernel 'slob'"),
        ({"test": "G"}, "unknown test 'G'"),
        ({"sizes": (0,)}, "size 0 is out of range"),
        ({"sizes": (1 << 23,)}, "out of range"),
        ({"sizes": ()}, "no size"),
        ({"ops": 0}, "0 operations"),
        ({"ops": 10**8}, "are more than fit"),
        ({"cpus": 0}, "cpus must be 1 to 4096"),
        ({"test": "F", "cpus": 1}, "at least 2 CPUs"),
        ({"sizes": (1 << 22,), "ops": 10_000}, "simulated memory"),
        ({"tests": ("A", "D")}, "do not share a boot"),
    ],
)
def test_impossible_requests_are_refused(change: dict[str, object], message: str) -> None:
    fields: dict[str, object] = {
        "machine": "e5345_8p", "kernel": "slub", "test": "A", "sizes": (64,), "ops": 10, "seed": 1
    }  # fmt: skip
    with pytest.raises(UserError, match=message) as caught:
        Session(SessionSpec(**{**fields, **change}))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_micro_op_numbers_of_the_program_fit_the_encoding() -> None:
    program = session("A", (64,), 1).booted.program
    assert program.micro_ops < 1 << 24  # the trace hash keeps CPU and micro-op apart
    assert len(Op) <= 256


def test_check_finds_a_leak(tmp_path: Path) -> None:
    """An object that the slow path of free forgets is in no list and nobody has it."""
    kernel = user_kernel(
        tmp_path,
        "    object.next = prior\n    page.freelist = object\n    inuse = page.inuse - 1\n",
        "    inuse = page.inuse\n    if prior == NULL:\n"
        "        object.next = prior\n        page.freelist = object\n"
        "        inuse = inuse - 1\n",
    )
    spec = SessionSpec("e5345_8p", kernel, "B", (512,), 40, 1, check=True)
    with pytest.raises(SimulationFault, match="objects are handed out, 0 should be"):
        Session(spec).run_to_end()


def test_a_machine_without_a_fast_cmpxchg_local_leaves_patch_08_out() -> None:
    slow = replace(load_machine("e5345_8p"), fast_cmpxchg_local=False)
    spec = SessionSpec("e5345_8p", "slub+", "C", (64,), 50, 1)
    assert Session(spec, slow).booted.program.options["PATCH_08"].value == 0
    assert Session(spec).booted.program.options["PATCH_08"].value == 1
    asked = replace(spec, options={"PATCH_08": 1})
    assert Session(asked, slow).booted.program.options["PATCH_08"].value == 1


def test_a_computer_without_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = session("A", (8,), 70_000, small_caches=True)

    def refuse() -> None:
        raise MemoryError

    monkeypatch.setattr(made.machine, "_grow_store", refuse)
    with pytest.raises(SimulationFault, match="no memory left"):
        made.run_to_end()
