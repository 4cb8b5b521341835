"""The table of workloads, their points and parameters, and what is refused."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from slubviz.model.assets import asset, program_folder
from slubviz.model.errors import RequestError
from slubviz.model.plan import (
    WORKLOADS,
    Setting,
    Sweep,
    boot_groups,
    parameters_of,
    phases_for,
    point_below,
    points_for,
)
from slubviz.model.requests import (
    SessionSpec,
    default_sizes,
    session_job,
    session_specs,
    validate,
)
from slubviz.model.results import RunRequest
from slubviz.model.workload import mixed, point_label, powers_of_two

REQUEST = RunRequest("e5345_8p", ("slub",), ("A",), None, 100, 1)
ALLOCATORS = Path(program_folder("allocators"))


def setting(name: str, ops: int = 100, cpus: int = 4, **given: int) -> Setting:
    return Setting(ops, cpus, 1, parameters_of(WORKLOADS[name], given))


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_workload_is_complete(name: str) -> None:
    workload = WORKLOADS[name]
    assert workload.name == name
    assert workload.title
    for file in workload.files:
        assert (program_folder("workloads") / file).is_file()
    if workload.published:
        assert asset("published", workload.published).is_file()
    for page_size in (4096, 16384):
        points = workload.points(page_size)
        assert list(points) == sorted(set(points))
    for parameter in workload.parameters:
        assert parameter.lowest <= parameter.default <= parameter.highest
        assert parameter.text
    tests = boot_groups(list(WORKLOADS))[
        [name in group for group in boot_groups(list(WORKLOADS))].index(True)
    ]
    for point in workload.points(4096):
        phases = phases_for(tests, point, setting(name))
        cells = [(phase.test, phase.operation) for phase in phases if phase.measured]
        assert [operation for test, operation in cells if test == name] == list(workload.operations)


@pytest.mark.parametrize("name", [name for name, workload in WORKLOADS.items() if workload.files])
def test_a_program_uses_every_parameter_or_its_phases_do(name: str) -> None:
    workload = WORKLOADS[name]
    text = "".join(
        (program_folder("workloads") / file).read_text(encoding="utf-8") for file in workload.files
    )
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    given_as_arguments = {"LOOPS", "START_JITTER", "OTHER_OBJECTS", "OTHER_PARTIAL"}
    assert {p.name for p in workload.parameters} - given_as_arguments <= names


def test_tests_share_a_boot_only_as_a_and_b() -> None:
    groups = boot_groups(list(WORKLOADS))
    assert groups[0] == ("A", "B")
    assert [len(group) for group in groups[1:]] == [1] * (len(groups) - 1)
    assert boot_groups(["B", "F", "A"]) == [("A", "B"), ("F",)]
    assert boot_groups(["bulk"]) == [("bulk",)]


def test_points() -> None:
    page = 4096
    assert default_sizes("e5345_8p") == (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    assert default_sizes("e5345_8p", "kmalloc-kfree")[-3:] == (4096, 8192, 16384)
    bulk, sizes, none = WORKLOADS["bulk"], WORKLOADS["D"], WORKLOADS["hackbench"]
    assert points_for(bulk, page, (8,), None) == (1, 2, 3, 4, 8, 16, 30, 32, 34, 48, 64, 128, 158, 250)
    assert points_for(bulk, page, None, (7, 9)) == (7, 9)
    assert points_for(sizes, page, (8, 96), (7,)) == (8, 96)
    assert points_for(sizes, 16384, None, None)[-1] == 16384
    assert points_for(none, page, (8,), (7,)) == (0,)
    assert (point_below(sizes, 64), point_below(sizes, 8), point_below(bulk, 64)) == (32, None, None)
    assert powers_of_two(8, 40) == (8, 16, 32)
    assert (point_label(64, None), point_label(256, 30), point_label(0, None)) == ("64", "N=30", "")


def test_phases_of_the_tests_of_two_operations() -> None:
    phases = phases_for(("kmalloc-kfree",), 64, setting("kmalloc-kfree"))
    assert [(p.operation, p.measured, p.starts[0].function, p.starts[0].arguments) for p in phases] == [
        ("kmalloc", True, "test_alloc", (64, 100)),
        ("kfree", True, "test_free", (0, 1, 100)),
    ]
    assert [phase.kept_after for phase in phases] == [100, 0]


def test_phases_of_bulk() -> None:
    phases = phases_for(("bulk",), 32, setting("bulk", ops=1000))
    assert [(p.operation, p.measured, p.starts[0].arguments) for p in phases] == [
        ("setup", False, (32, 32)),  # about a thousand objects
        ("alloc+free", True, (32, 31)),
    ]
    assert (phases[1].ops, phases[1].divisor, phases[1].operations_total) == (992, 992.0, 992)
    one = phases_for(("bulk",), 250, setting("bulk", ops=10))[1]
    assert (one.starts[0].arguments, one.ops) == ((250, 1), 250)
    job = session_job(SessionSpec("e5345_8p", "slub-bulk", "bulk", (), 1000, 1))
    assert [p.starts[0].function for p in job.phases[:3]] == ["bulk_share", "test_bulk", "test_bulk"]
    assert len(job.phases) == 1 + 2 * 14


@pytest.mark.parametrize("cpus", [1, 3, 8])
def test_hackbench_shares_its_messages_out(cpus: int) -> None:
    given = setting("hackbench", 1000, cpus, GROUPS=3, SENDERS=2, RECEIVERS=5)
    phase = phases_for(("hackbench",), 0, given)[1]
    assert phase.operations_total == 1000 * cpus // 30 * 30
    assert phase.divisor * cpus == pytest.approx(phase.operations_total)
    assert [start.cpu for start in phase.starts] == list(range(cpus))
    few = phases_for(("hackbench",), 0, setting("hackbench", 1, cpus))[1]
    assert few.operations_total == 16 * 8 * 8  # never less than one round


def test_parameters_are_checked() -> None:
    hackbench = WORKLOADS["hackbench"]
    assert parameters_of(hackbench, {"GROUPS": 7, "CONFIG_PREEMPT": 1})["GROUPS"] == 7
    for value in (0, 65, -1):
        with pytest.raises(RequestError, match=f"GROUPS={value} of test hackbench must be from 1 to 64"):
            parameters_of(hackbench, {"GROUPS": value})


def test_the_hash_of_the_seed_spreads() -> None:
    values = {mixed(seed, index) for seed in range(40) for index in range(40)}
    assert len(values) == 1600
    assert all(0 <= value < 1 << 64 for value in values)
    assert 0.4 < sum(value >> 63 for value in values) / 1600 < 0.6


# --- requests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tests": ("bulk",)},
            r"test bulk needs kmem_cache_alloc, kmem_cache_free, kmem_cache_alloc_bulk, "
            r"kmem_cache_free_bulk, which kernel slub lacks; "
            r"kernels that have them: slub-cpu-partial, slub-bulk, slub-bulk-fallback",
        ),
        (
            {"tests": ("bulk",), "sizes": (8,)},
            r"--size has no meaning for test bulk; tests that take it: A, B",
        ),
        ({"objects": (8,)}, r"--objects has no meaning for test A; tests that take it: bulk$"),
        ({"tests": ("hackbench",), "sizes": (8,)}, r"--size has no meaning for test hackbench"),
        ({"tests": ("bulk",), "kernels": ("slub-bulk",), "objects": (2000,)}, r"bulk calls take 1 to 1024"),
        ({"tests": ("G",)}, r"unknown test 'G'"),
        ({"tests": ("F",), "cpus": 1}, r"test F needs at least 2 CPUs"),
        ({"options": {"GROUPS": 3}}, r"unknown option of kernel slub: 'GROUPS'"),
        ({"tests": ("hackbench",), "options": {"GROUPS": 99}}, r"GROUPS=99 of test hackbench must be from"),
        ({"tests": ("hackbench",), "options": {"GRUPS": 9}}, r"'GRUPS'; did you mean GROUPS"),
    ],
)
def test_refusals(changes: dict[str, object], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        validate(replace(REQUEST, **changes))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_kernel_file_with_bulk_functions_is_taken(tmp_path: Path) -> None:
    """Loops of kmalloc and kfree are enough."""
    own = tmp_path / "mine.py"
    sources = ("slub.py", "slub_fastpath.py")
    own.write_text(
        "\n".join(re.sub(r'\A"""(.|\n)*?"""', "", (ALLOCATORS / name).read_text()) for name in sources)
        + """

def kmem_cache_alloc(s: kmem_cache, gfpflags) -> ptr:
    return slab_alloc(s, gfpflags, -1)


def kmem_cache_free(s: kmem_cache, object: free_object):
    kfree(object)


def kmem_cache_alloc_bulk(s: kmem_cache, gfpflags, n, array: ptr[ptr]):
    for i in range(n):
        array[i] = kmem_cache_alloc(s, gfpflags)
    return n


def kmem_cache_free_bulk(s: kmem_cache, n, array: ptr[ptr]):
    for i in range(n):
        kfree(cast(free_object, array[i]))
"""
    )
    validate(replace(REQUEST, tests=("bulk",), kernels=(str(own),)))


def test_a_test_s_options_do_not_reach_the_others() -> None:
    request = replace(REQUEST, tests=("A", "hackbench"), options={"GROUPS": 3, "CONFIG_PREEMPT": 1})
    a, hackbench = session_specs(request)
    assert a.options == {"CONFIG_PREEMPT": 1}
    assert hackbench.options == {"GROUPS": 3, "CONFIG_PREEMPT": 1}
    validate(request)
    job = session_job(hackbench)
    assert (job.parameters["GROUPS"], job.options) == (3, {"CONFIG_PREEMPT": 1})


def test_one_session_for_each_boot_kernel_and_seed() -> None:
    request = replace(
        REQUEST, kernels=("slub", "slub+"), tests=("A", "B", "kmalloc-kfree"), seeds=(1, 5), sizes=(8, 64)
    )
    assert [(s.kernel, s.asked_tests, s.seed, s.sizes) for s in session_specs(request)] == [
        (kernel, tests, seed, (8, 64))
        for kernel in ("slub", "slub+")
        for tests in (("A", "B"), ("kmalloc-kfree",))
        for seed in (1, 5)
    ]
    cold = session_specs(replace(request, fresh_boot=True, kernels=("slub",), seeds=(), tests=("A",)))
    assert [(s.sizes, s.warm_up) for s in cold] == [((8,), False), ((64,), False)]
    bulk = session_specs(replace(REQUEST, tests=("bulk",), objects=(1, 2), fresh_boot=True))
    assert [(s.sizes, s.objects) for s in bulk] == [((), (1,)), ((), (2,))]


def test_sizes_of_a_window_s_job_do_not_matter_to_a_test_that_sweeps_something_else() -> None:
    assert WORKLOADS["hackbench"].sweep == Sweep.NOTHING
    job = session_job(SessionSpec("e5345_8p", "slub", "hackbench", (64,), 10, 1))
    assert job.points == (0,)
