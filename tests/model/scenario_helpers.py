"""Small scenarios, and playing one in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slubviz.model.errors import UserError
from slubviz.model.scenarios import Scenario, parse_scenario
from slubviz.model.scenarios.run import ScenarioResult, ScenarioRun

BUDGET_BYTES = 64 << 20


def play(scenario: Scenario) -> ScenarioResult:
    """Play it from start to end."""
    return ScenarioRun(scenario, BUDGET_BYTES).play()


@contextmanager
def one_line_or_nothing() -> Iterator[None]:
    """What happens is a complaint of one line, or none."""
    complaint = ""
    try:
        yield
    except UserError as error:
        complaint = str(error)
    assert "\n" not in complaint


PROGRAM = '''
def work(size, n):
    for i in range(n):
        alloc_to(i, size)
    helper(size)
    for i in range(n):
        free_from(i)


@inline
def helper(size):
    alloc_to(100, size)
    free_from(100)


def irq_two():
    """Handler: nothing that matters."""
    barrier()
'''

HEAD = """format = 1
title = "A title"
summary = "A summary."
size = 64
"""

TABLES = """
[machine]
name = "e5345_8p"
cpus = 2

[kernel]
name = "slub+"

[[cpu]]
number = 0
run = "work"
arguments = [64, 3]

[outcome]
kind = "fine"
explanation = "Nothing happens."
"""


def text_of(extra: str = "", program: str = PROGRAM, tables: str = TABLES, head: str = HEAD) -> str:
    return f"{head}program = '''{program}'''\n{tables}\n{extra}"


def small(extra: str = "", **parts: str) -> Scenario:
    return parse_scenario(text_of(extra, **parts), "small", "small.toml")


def steps(*anchors: str) -> str:
    return "\n".join(f'[[step]]\nat = "{anchor}"\ncaption = "A caption."\n' for anchor in anchors)


def positions(*anchors: str, extra: str = "", **parts: str) -> list[int]:
    return [step.position for step in play(small(steps(*anchors) + extra, **parts)).steps]
