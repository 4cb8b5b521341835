"""SLUB with a sequence number: an interrupt at every micro-op of an operation breaks nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.model.driver import Driver
from tests.model.test_interrupts import (
    HANDLERS,
    SCENES,
    Scene,
    alloc_from_a_cpu_slab,
    alloc_of_a_large_object,
    free_of_a_large_object,
    free_to_the_cpu_slab,
    free_to_the_exhausted_cpu_slab,
    name_of,
)

KERNEL = "slub-seq"
FROM_SLABS = [scene for scene in SCENES if scene not in (alloc_of_a_large_object, free_of_a_large_object)]


@pytest.mark.parametrize("make", FROM_SLABS, ids=name_of)
@pytest.mark.parametrize("handler", HANDLERS)
def test_no_interrupt_at_any_micro_op_breaks_it(handler: str, make: Callable[[Driver], Scene]) -> None:
    """The same places and handlers break slub+ (see test_interrupts)."""
    assert make(Driver(KERNEL, 2)).interrupt_everywhere(handler) == ([], [])


@pytest.mark.parametrize(
    "make", [alloc_from_a_cpu_slab, free_to_the_cpu_slab, free_to_the_exhausted_cpu_slab], ids=name_of
)
@pytest.mark.parametrize("times", [2, 3, 4])
def test_nor_do_several_interrupts_at_once(make: Callable[[Driver], Scene], times: int) -> None:
    scene = make(Driver(KERNEL, 2))
    for handler in ("irq_alloc", "irq_alloc_alloc_free_first"):
        assert scene.interrupt_everywhere(handler, times) == ([], [])
