"""The language's description says what is true: its example runs, and it names every intrinsic."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slubviz.model.lang import Program, SourceFile, compile_program
from slubviz.model.lang.intrinsics import INTRINSICS
from tests.lang.helpers import TARGET, error_of
from tests.lang.reference_machine import MachineFault, ReferenceMachine

DOCUMENT = Path(__file__).parents[2] / "docs" / "kernel-language.md"


@pytest.fixture(scope="module")
def text() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def example(text: str, **options: int) -> Program:
    block = re.search(r"## A complete example.*?```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return compile_program([SourceFile("pool.py", block[1])], TARGET, options)


def test_example_does_what_the_text_says(text: str) -> None:
    machine = ReferenceMachine(example(text), cpu=3)
    assert "`test(10)` returns 4" in text
    assert machine.call("test", 10) == 4
    assert machine.counters == {"ALLOC_REFILL": 1, "ALLOC_FASTPATH": 19, "FREE": 20}
    assert machine.irqs_enabled == 1
    caches = machine.program.globals["caches"]
    layout = machine.program.struct("cpu_cache").fields["available"]
    available = [
        machine.read(caches.address + cpu * caches.stride_bytes + layout.offset_bytes, 4) for cpu in range(8)
    ]
    assert available == [0, 0, 0, 4, 0, 0, 0, 0]


def test_example_hands_out_each_object_once_and_then_none(text: str) -> None:
    machine = ReferenceMachine(example(text, BATCH=5))
    objects = machine.program.globals["objects"]
    got = [machine.call("alloc") for _ in range(33)]
    assert sorted(got[:32]) == [objects.address + 64 * k for k in range(32)]
    assert got[32] == 0
    with pytest.raises(MachineFault, match="NULL was freed"):
        machine.call("free", 0)


def test_every_intrinsic_is_described(text: str) -> None:
    missing = [name for name in INTRINSICS if f"`{name}(" not in text]
    assert missing == []


def test_every_link_of_the_contents_leads_somewhere(text: str) -> None:
    headings = {line[3:].lower().replace(" ", "-") for line in text.split("\n") if line.startswith("## ")}
    links = set(re.findall(r"\]\(#(.*?)\)", text))
    assert links == headings


def test_messages_of_the_text_are_real(text: str) -> None:
    first = error_of("class page(struct):\n    inuse: word\ndef f(page: page):\n    return page.inuze\n")
    second = error_of("def f(n):\n    if 0 < n < 8:\n        return 1\n")
    for message in (first, second):
        assert message.split(":", 3)[3] in text
