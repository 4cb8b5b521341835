"""Machine files: the shipped ones are sound, and every mistake gets one line that names file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slubviz.hw.machine_file import (
    COST_TABLE,
    L3_COST_TABLE,
    MAX_CPUS,
    MachineFileError,
    MachineSpec,
    load_machine_file,
    parse_machine,
)

SHIPPED = sorted((Path(__file__).parents[2] / "assets" / "machines").glob("*.toml"))

Document = dict[str, Any]


def valid_document() -> Document:
    return {
        "name": "m",
        "title": "a machine",
        "topology": {
            "cpus": 8,
            "cpus_per_l1": 1,
            "cpus_per_l2": 2,
            "l2_per_package": 2,
            "cpus_per_node": 4,
            "clock_hz": 1e9,
        },
        "memory": {"page_size_bytes": 4096, "word_bytes": 8, "fragmented_share": 0.25},
        "cache": {
            "line_bytes": 64,
            "l1": {"size_bytes": 32768, "ways": 8},
            "l2": {"size_bytes": 65536, "ways": 16},
        },
        "features": {"prefetch_reach_lines": 2, "fast_cmpxchg_local": True},
        "cost": {
            name: {"value": 0.5, "unit": unit, "source": "made up", "range": [0, 1]}
            for name, (unit, _) in COST_TABLE.items()
        },
    }


def valid_document_with_l3() -> Document:
    """Four CPUs, an L2 for two threads each, one L3."""
    document = valid_document()
    document["topology"] = {
        "cpus": 4,
        "cpus_per_l1": 2,
        "cpus_per_l2": 2,
        "cpus_per_l3": 4,
        "l3_per_package": 1,
        "cpus_per_node": 4,
        "clock_hz": 1e9,
    }
    document["cache"]["l3"] = {"size_bytes": 131072, "ways": 16}
    for name, (unit, _) in L3_COST_TABLE.items():
        document["cost"][name] = {"value": 0.5, "unit": unit, "source": "made up", "range": [0, 1]}
    return document


def toml(value: Any) -> str:
    """A value as TOML, tables inline."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if value.startswith("=") else '"' + value.replace("\n", "\\n") + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_key(k)} = {toml(v).lstrip('=')}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(v).lstrip("=") for v in value) + "]"
    return repr(value)


def toml_key(key: str) -> str:
    return key if key.isidentifier() else '"' + key.replace("\n", "\\n") + '"'


def toml_document(document: Document) -> str:
    return "\n".join(f"{toml_key(key)} = {toml(value).lstrip('=')}" for key, value in document.items())


def changed(path: str, value: Any, document: Document | None = None) -> str:
    """The valid document (or another) with one key changed, or removed (None)."""
    document = document or valid_document()
    *tables, key = path.split("/")
    table = document
    for name in tables:
        table = table[name]
    if value is None:
        del table[key]
    else:
        table[key] = value
    return toml_document(document)


def test_the_valid_document_is_valid() -> None:
    spec = parse_machine(toml_document(valid_document()), "m.toml")
    assert (spec.cpus, spec.nodes, spec.l2_count, spec.clock_hz) == (8, 2, 4, 1e9)
    assert (spec.l1.sets(64), spec.l2.sets(64), spec.prefetch_reach_lines) == (64, 64, 2)
    assert spec.costs["l2_hit"].value == 0.5
    assert not spec.costs["l2_hit"].calibrated
    assert (spec.fragmented_share, spec.adjacent_line_prefetch) == (0.25, False)


def test_the_adjacent_line_prefetcher_is_an_optional_feature() -> None:
    assert parse_machine(changed("features/adjacent_line_prefetch", True), "m.toml").adjacent_line_prefetch


def test_the_valid_document_with_an_l3_is_valid() -> None:
    spec = parse_machine(toml_document(valid_document_with_l3()), "m.toml")
    assert spec.l3 is not None
    assert spec.l3.sets(64) == 128
    assert (spec.outer, spec.middle) == (spec.l3, spec.l2)
    assert (spec.cpus_per_outer, spec.outer_per_package, spec.outer_count, spec.l2_count) == (4, 1, 1, 2)
    assert set(spec.costs) == set(COST_TABLE) | set(L3_COST_TABLE)
    more = spec.with_cpus(10)
    assert (more.outer_count, more.l2_count, more.nodes) == (3, 5, 1)


def test_without_an_l3_the_l2_is_the_outer_level() -> None:
    spec = parse_machine(toml_document(valid_document()), "m.toml")
    assert spec.l3 is None
    assert (spec.outer, spec.middle) == (spec.l2, None)
    assert (spec.cpus_per_outer, spec.outer_per_package, spec.outer_count) == (2, 2, 4)
    assert set(spec.costs) == set(COST_TABLE)


MISTAKES: list[tuple[str, Any, str]] = [
    ("name", None, "name: is missing"),
    ("name", "", "name: is empty"),
    ("name", "  ", "name: is empty"),
    ("title", 5, "title: is 5; give a text"),
    ("topology", None, "topology: is missing"),
    ("topology", 3, "topology: is 3; give a section"),
    ("topology/cpus", None, "topology.cpus: is missing; give a whole number from 1 to 4096"),
    ("topology/cpus", 0, "topology.cpus: is 0"),
    ("topology/cpus", MAX_CPUS + 1, "topology.cpus: is 4097"),
    ("topology/cpus", 2.5, "topology.cpus: is 2.5; give a whole number"),
    ("topology/cpus", True, "topology.cpus: is True"),
    ("topology/cpus", "8", "topology.cpus: is '8'"),
    ("topology/cpus", [8], "topology.cpus: is [8]"),
    ("topology/cpus_per_l1", 0, "topology.cpus_per_l1: is 0"),
    ("topology/cpus_per_l1", 3, "topology.cpus_per_l2: must be a multiple of cpus_per_l1"),
    ("topology/cpus_per_l2", 8, "topology.cpus_per_node: must be a multiple of cpus_per_l2"),
    ("topology/l2_per_package", -1, "topology.l2_per_package: is -1"),
    ("topology/clock_hz", 0, "topology.clock_hz: is 0; give a number from"),
    ("topology/clock_hz", "=nan", "topology.clock_hz: is nan"),
    ("topology/clock_hz", "=inf", "topology.clock_hz: is inf"),
    ("topology/clock_hz", 10**400, "topology.clock_hz: is"),
    ("topology/sockets", 2, "topology.sockets: is not known here; known are"),
    ("memory/page_size_bytes", 3000, "memory.page_size_bytes: is 3000; give a power of two"),
    ("memory/page_size_bytes", 512, "memory.page_size_bytes: is 512; give a whole number from 1024"),
    ("memory/word_bytes", 16, "memory.word_bytes: is 16"),
    ("memory/word_bytes", 5, "memory.word_bytes: is 5; give a power of two"),
    ("memory/fragmented_share", None, "memory.fragmented_share: is missing; give a number from 0 to 0.9"),
    ("memory/fragmented_share", 1.1, "memory.fragmented_share: is 1.1; give a number from 0 to 0.9"),
    ("memory/fragmented_share", -0.5, "memory.fragmented_share: is -0.5"),
    ("memory/fragmented_share", True, "memory.fragmented_share: is True"),
    ("features/adjacent_line_prefetch", 1, "features.adjacent_line_prefetch: is 1; give true or false"),
    ("cost/bus_transaction", None, "cost.bus_transaction: is missing; give a section [cost.bus_transaction]"),
    ("cost/spinner_retry/unit", "fraction", "cost.spinner_retry.unit: is 'fraction'; this cost is in cycles"),
    ("cache/line_bytes", 48, "cache.line_bytes: is 48; give a power of two"),
    ("cache/l1", None, "cache.l1: is missing"),
    ("cache/l1/ways", 7, "cache.l1.size_bytes: is 32768; 7 ways"),
    ("cache/l1/ways", 0, "cache.l1.ways: is 0"),
    ("cache/l1/size_bytes", 24576, "cache.l1.size_bytes: is 24576; 8 ways"),
    ("cache/l1/size_bytes", 1, "cache.l1.size_bytes: is 1"),
    ("cache/l1/latency", 3, "cache.l1.latency: is not known here"),
    ("cache/l2/size_bytes", 16384, "cache.l2.size_bytes: the L2 includes the L1s"),
    ("features/prefetch_reach_lines", True, "features.prefetch_reach_lines: is True"),
    ("features/prefetch_reach_lines", 65, "features.prefetch_reach_lines: is 65"),
    ("features/fast_cmpxchg_local", 1, "features.fast_cmpxchg_local: is 1; give true or false"),
    ("features/smp_kernel", "no", "features.smp_kernel: is 'no'; give true or false"),
    ("features/smp_kernel", False, "features.smp_kernel: is false: a kernel for one CPU does not run on 8"),
    ("topology/cpus_per_l3", 8, "topology.cpus_per_l3: is for machines with an L3; add [cache.l3]"),
    ("topology/l3_per_package", 1, "topology.l3_per_package: is for machines with an L3; add [cache.l3]"),
    ("topology/l2_per_package", None, "topology.l2_per_package: is missing"),
    ("cost/l3_hit", {"value": 1}, "cost.l3_hit: is for machines with an L3; add [cache.l3]"),
    ("cost/transfer_same_l3", 1, "cost.transfer_same_l3: is for machines with an L3; add [cache.l3]"),
    ("cache/l3", {"size_bytes": 131072, "ways": 16}, "topology.l2_per_package: a machine with an L3 gives"),
    ("cache/l4", {}, "cache.l4: is not known here; known are l1, l2, l3, line_bytes"),
    ("features/hyperthreads", True, "features.hyperthreads: is not known here"),
    ("cost/load", None, "cost.load: is missing; give a section [cost.load]"),
    ("cost/load/value", None, "cost.load.value: is missing"),
    ("cost/load/value", -1, "cost.load.value: is -1"),
    ("cost/load/value", 2, "cost.load.value: is 2, outside its plausible range [0, 1]"),
    ("cost/load/value", 10**400, "cost.load.value: is"),
    ("cost/load/unit", "ns", "cost.load.unit: is 'ns'; this cost is in cycles"),
    (
        "cost/store_miss_share/unit",
        "cycles",
        "cost.store_miss_share.unit: is 'cycles'; this cost is in fraction",
    ),
    ("cost/store_miss_share/value", 1.5, "cost.store_miss_share.value: is 1.5"),
    ("cost/load/source", "", "cost.load.source: is empty"),
    ("cost/load/range", None, "cost.load.range: is missing"),
    ("cost/load/range", [0], "cost.load.range: is [0]; give two numbers"),
    ("cost/load/range", [0, "x"], "cost.load.range: is [0, 'x']"),
    ("cost/load/range", [0, True], "cost.load.range: is [0, True]"),
    ("cost/load/range", [0, 10**400], "cost.load.range: is"),
    ("cost/load/range", 5, "cost.load.range: is 5"),
    ("cost/load/calibrated", "yes", "cost.load.calibrated: is 'yes'; give true or false"),
    ("cost/load/note", "x", "cost.load.note: is not known here"),
    ("cost/teleport", 1, "cost.teleport: is not known here"),
    ("colour", "red", "colour: is not known here; known are"),
    ("a\nb", 1, "is not known here"),
]


MISTAKES_WITH_L3: list[tuple[str, Any, str]] = [
    ("cache/l3", 5, "cache.l3: is 5; give a section [cache.l3]"),
    ("cache/l3/ways", 7, "cache.l3.size_bytes: is 131072; 7 ways"),
    ("cache/l3/ways", None, "cache.l3.ways: is missing"),
    ("cache/l3/size_bytes", 32768, "cache.l3.size_bytes: the L3 includes the L2s, so it cannot be smaller"),
    ("cache/l2/size_bytes", 16384, "cache.l2.size_bytes: the L2 includes the L1s, so it cannot be smaller"),
    ("topology/cpus_per_l3", None, "topology.cpus_per_l3: is missing; give a whole number from 1 to 4096"),
    ("topology/cpus_per_l3", 3, "topology.cpus_per_l3: must be a multiple of cpus_per_l2"),
    ("topology/cpus_per_l3", 0, "topology.cpus_per_l3: is 0"),
    ("topology/l3_per_package", None, "topology.l3_per_package: is missing"),
    ("topology/l2_per_package", 1, "topology.l2_per_package: a machine with an L3 gives l3_per_package"),
    ("topology/cpus_per_node", 2, "topology.cpus_per_node: must be a multiple of cpus_per_l3"),
    ("cost/l3_hit", None, "cost.l3_hit: is missing; give a section [cost.l3_hit]"),
    ("cost/transfer_same_l3", None, "cost.transfer_same_l3: is missing"),
    ("cost/l3_hit/unit", "ns", "cost.l3_hit.unit: is 'ns'; this cost is in cycles"),
]


@pytest.mark.parametrize(("path", "value", "says"), MISTAKES_WITH_L3)
def test_each_mistake_with_an_l3_gets_one_line(path: str, value: Any, says: str) -> None:
    with pytest.raises(MachineFileError) as caught:
        parse_machine(changed(path, value, valid_document_with_l3()), "m.toml")
    assert str(caught.value).startswith("m.toml: " + says)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("path", "value", "says"), MISTAKES, ids=lambda v: str(v)[:40].replace("\n", " "))
def test_each_mistake_gets_one_line(path: str, value: Any, says: str) -> None:
    with pytest.raises(MachineFileError) as caught:
        parse_machine(changed(path, value), "m.toml")
    message = str(caught.value)
    assert message.startswith("m.toml: ")
    assert says in message
    assert "\n" not in message
    assert len(message) < 1000


@pytest.mark.parametrize(
    "text", ["name = ", "[[[", "name = 'a'\nname = 'b'", "x = " + "9" * 5000, "x = " + "[" * 100_000]
)
def test_a_file_that_is_no_toml(text: str) -> None:
    with pytest.raises(MachineFileError, match=r"^m\.toml: not a TOML file: ") as caught:
        parse_machine(text, "m.toml")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MachineFileError, match=r"none\.toml: cannot be read: No such file"):
        load_machine_file(tmp_path / "none.toml")
    with pytest.raises(MachineFileError, match="cannot be read: Is a directory"):
        load_machine_file(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(MachineFileError, match=r"latin\.toml: not a text file in UTF-8"):
        load_machine_file(tmp_path / "latin.toml")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SHIPPED[0].read_bytes())
    assert load_machine_file(path) == load_machine_file(SHIPPED[0])


def test_too_many_nodes() -> None:
    document = valid_document()
    document["topology"] |= {"cpus": 4096, "cpus_per_l2": 1, "cpus_per_node": 1}
    with pytest.raises(MachineFileError, match=r"topology\.cpus_per_node: makes 4096 nodes; at most 1024"):
        parse_machine(toml_document(document), "m.toml")


def as_document(spec: MachineSpec) -> Document:
    document = _document_without_l3(spec)
    if spec.l3 is not None:
        del document["topology"]["l2_per_package"]
        document["topology"] |= {"cpus_per_l3": spec.cpus_per_l3, "l3_per_package": spec.l3_per_package}
        document["cache"]["l3"] = {"size_bytes": spec.l3.size_bytes, "ways": spec.l3.ways}
    return document


def _document_without_l3(spec: MachineSpec) -> Document:
    return {
        "name": spec.name,
        "title": spec.title,
        "topology": {
            "cpus": spec.cpus,
            "cpus_per_l1": spec.cpus_per_l1,
            "cpus_per_l2": spec.cpus_per_l2,
            "l2_per_package": spec.l2_per_package,
            "cpus_per_node": spec.cpus_per_node,
            "clock_hz": spec.clock_hz,
        },
        "memory": {
            "page_size_bytes": spec.page_size_bytes,
            "word_bytes": spec.word_bytes,
            "fragmented_share": spec.fragmented_share,
        },
        "cache": {
            "line_bytes": spec.line_bytes,
            "l1": {"size_bytes": spec.l1.size_bytes, "ways": spec.l1.ways},
            "l2": {"size_bytes": spec.l2.size_bytes, "ways": spec.l2.ways},
        },
        "features": {
            "prefetch_reach_lines": spec.prefetch_reach_lines,
            "adjacent_line_prefetch": spec.adjacent_line_prefetch,
            "fast_cmpxchg_local": spec.fast_cmpxchg_local,
            "smp_kernel": spec.smp_kernel,
        },
        "cost": {
            name: {
                "value": cost.value,
                "unit": cost.unit,
                "source": cost.source,
                "range": [cost.plausible_low, cost.plausible_high],
                "calibrated": cost.calibrated,
            }
            for name, cost in spec.costs.items()
        },
    }


def test_there_are_shipped_machines() -> None:
    assert {path.stem for path in SHIPPED} >= {"e5345_8p", "ia64_8p_4n", "p4_3ghz_up", "amd64", "i7_4790k"}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_machines_survive_a_round_trip(path: Path) -> None:
    spec = load_machine_file(path)
    assert spec.name == path.stem
    assert parse_machine(toml_document(as_document(spec)), "again") == spec
    assert set(spec.costs) == set(COST_TABLE) | (set(L3_COST_TABLE) if spec.l3 else set())
    assert all(cost.plausible_low <= cost.value <= cost.plausible_high for cost in spec.costs.values())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_machines_have_evidence(path: Path) -> None:
    costs = load_machine_file(path).costs
    assert sum(cost.calibrated for cost in costs.values()) <= 20
    for name, cost in costs.items():
        assert len(cost.source) >= 3, name
        assert "calibrated" in cost.source or not cost.calibrated, name
        assert cost.plausible_low < cost.plausible_high, name


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_costs_of_shipped_machines_rise_with_the_distance(path: Path) -> None:
    value = {name: cost.value for name, cost in load_machine_file(path).costs.items()}
    levels = ["l2_hit", "l3_hit", "memory_local", "memory_remote"]
    distances = ["transfer_same_l2", "transfer_same_l3", "transfer_same_package"]
    distances += ["transfer_other_package", "transfer_other_node"]
    for names in (levels, distances):
        costs = [value[name] for name in names if name in value]
        assert costs == sorted(costs)
    for plain, locked in (("cmpxchg_local", "locked_operation"), ("irq_disable", "irq_save")):
        assert value[plain] <= value[locked]


def test_other_numbers_of_cpus() -> None:
    spec = parse_machine(toml_document(valid_document()), "m.toml")
    assert spec.with_cpus(16).nodes == 4
    assert spec.with_cpus(3).l2_count == 2
    smp = parse_machine(changed("topology/cpus_per_node", 8), "m.toml")
    assert smp.with_cpus(64).nodes == 1
    assert smp.with_cpus(2).with_cpus(64).nodes == 1
    for cpus in (0, MAX_CPUS + 1):
        with pytest.raises(MachineFileError, match=f"cpus must be 1 to {MAX_CPUS}, not {cpus}"):
            spec.with_cpus(cpus)


def test_a_kernel_for_one_cpu_gets_no_more_cpus() -> None:
    document = valid_document()
    document["topology"] |= {"cpus": 1, "cpus_per_l2": 1, "cpus_per_node": 1}
    document["features"]["smp_kernel"] = False
    spec = parse_machine(toml_document(document), "m.toml")
    assert not spec.smp_kernel
    assert spec.with_cpus(1) == spec
    with pytest.raises(MachineFileError, match=r"cpus must be 1, not 2: m runs a kernel for one CPU"):
        spec.with_cpus(2)
    assert parse_machine(toml_document(valid_document()), "m.toml").smp_kernel


def test_a_machine_that_was_cut_to_one_node_grows_nodes_of_the_same_size() -> None:
    spec = parse_machine(toml_document(valid_document()), "m.toml")
    for fewer in (1, 3, 4):
        cut = spec.with_cpus(fewer)
        assert cut.nodes == 1
        for cpus in (*range(1, 10), 64):
            assert cut.with_cpus(cpus) == spec.with_cpus(cpus)
            assert cut.with_cpus(cpus).nodes == -(-cpus // 4)


def test_other_costs() -> None:
    spec = parse_machine(toml_document(valid_document()), "m.toml")
    other = spec.with_costs({"load": 7})
    assert other.costs["load"].value == 7
    assert other.costs["store"] == spec.costs["store"]
    assert spec.costs["load"].value == 0.5


def test_a_file_too_large_for_a_machine_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_bytes(b"#" * (256 * 1024 + 1))
    with pytest.raises(MachineFileError, match="is too large; a machine file has at most 262,144 bytes"):
        load_machine_file(path)
