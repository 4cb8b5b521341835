"""A machine as the text of a machine file, so that it can be kept by content.

``machine_text`` is the counterpart of ``machine_file.parse_machine``: what it writes reads back as the same
machine, whether that came from a file, was given other costs or was cut to fewer CPUs.  Leaves out the
comments of the file from which the machine was read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from slubviz.hw.machine_file import CacheGeometry, Cost, MachineFileError, MachineSpec, parse_machine

_WHERE = "machine file"


def machine_text(spec: MachineSpec) -> str:
    """A machine file of a machine with all its CPUs; see ``cpus_of`` for the number that it runs with.

    Raises
    ------
    ValueError
        If the machine has something that a file cannot say.
    """
    numa = spec.nodes > 1 or spec.node_size_fixed
    topology = {
        "cpus": spec.file_cpus or spec.cpus,
        "cpus_per_l1": spec.cpus_per_l1,
        "cpus_per_l2": spec.cpus_per_l2,
        **(
            {"cpus_per_l3": spec.cpus_per_l3, "l3_per_package": spec.l3_per_package}
            if spec.l3
            else {"l2_per_package": spec.l2_per_package}
        ),
        "cpus_per_node": spec.cpus_per_node if numa else spec.file_cpus or spec.cpus,
        "clock_hz": spec.clock_hz,
    }
    features = {
        "prefetch_reach_lines": spec.prefetch_reach_lines,
        "adjacent_line_prefetch": spec.adjacent_line_prefetch,
        "fast_cmpxchg_local": spec.fast_cmpxchg_local,
        "smp_kernel": spec.smp_kernel,
    }
    memory = {
        "page_size_bytes": spec.page_size_bytes,
        "word_bytes": spec.word_bytes,
        "fragmented_share": spec.fragmented_share,
    }
    parts = [
        _lines({"name": spec.name, "title": spec.title}),
        _section("topology", topology),
        _section("memory", memory),
        _section("features", features),
        _section("cache", {"line_bytes": spec.line_bytes}),
        *(
            _cache(name, cache)
            for name, cache in (("l1", spec.l1), ("l2", spec.l2), ("l3", spec.l3))
            if cache
        ),
        *(_cost(name, cost) for name, cost in spec.costs.items()),
    ]
    text = "\n".join(parts)
    try:
        cpus_of(spec, text)
    except MachineFileError as error:
        raise ValueError(f"the machine cannot be written as a machine file: {error}") from error
    return text


def cpus_of(spec: MachineSpec, text: str) -> int | None:
    """The number of CPUs to ask for so that ``text`` gives this very machine; None if it does by itself.

    Raises
    ------
    MachineFileError
        If the text gives another machine.
    """
    written = parse_machine(text, _WHERE)
    if written == spec:
        return None
    if written.with_cpus(spec.cpus) == spec:
        return spec.cpus
    raise MachineFileError(f"{_WHERE}: gives another machine than {spec.name}")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML's escapes are JSON's; it wants the delete character escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _lines(values: Mapping[str, object]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items())


def _section(name: str, values: Mapping[str, object]) -> str:
    return f"[{name}]\n" + _lines(values)


def _cache(name: str, cache: CacheGeometry) -> str:
    return _section(f"cache.{name}", {"size_bytes": cache.size_bytes, "ways": cache.ways})


def _cost(name: str, cost: Cost) -> str:
    values: dict[str, object] = {"value": cost.value, "unit": cost.unit}
    bounds = f"range = [{cost.plausible_low!r}, {cost.plausible_high!r}]\n"
    calibrated: dict[str, object] = {"calibrated": True} if cost.calibrated else {}
    return _section(f"cost.{name}", values) + bounds + _lines({"source": cost.source, **calibrated})
