"""Every option of the shipped kernels has a range that its values of every kernel are in."""

from __future__ import annotations

import re

import pytest

from slubviz.model.kernels import KERNELS
from slubviz.model.requests import SessionSpec, compile_kernel, session_job

RANGED = re.compile(r'^([A-Z_0-9]+) = option\([^"\n]*"[^"\n]*", [^,\n]+, [^,\n]+\)$', re.MULTILINE)
ANY = re.compile(r"^([A-Z_0-9]+) = option\(", re.MULTILINE)


@pytest.mark.parametrize("kernel", KERNELS)
def test_options_have_a_range_and_the_kernels_values_are_in_it(kernel: str) -> None:
    variant = KERNELS[kernel]
    text = "\n".join(source.text for source in variant.sources())
    assert set(ANY.findall(text)) == set(RANGED.findall(text))
    program = compile_kernel(session_job(SessionSpec("e5345_8p", kernel, "A", (64,), 10, 1)))
    assert {name: program.options[name].value for name in variant.options} == dict(variant.options)
