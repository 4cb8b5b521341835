"""Expressions over a kernel's memory and variables, read at the cursor; never executed.

What an expression may say (``watch_grammar`` has the syntax):

==============================  ==========================================================================
``jiffies``                     a global; ``kmalloc_caches.cache[6].size`` with fields and elements
``per_cpu(cache_cpus, 2)``      the element of a per-CPU global, ``per_node(zones, 0)`` of a per-node one
``this_cpu(reap_node)``         the element of the CPU that is looked at
``kmem_cache(kmalloc-64)``      a cache; ``kmem_cache_cpu(kmalloc-64, 2)``, ``kmem_cache_node(kmalloc-64,
                                0)``, ``array_cache(size-64, 2)``, ``kmem_list3(size-64, 0)`` of one
``page(812)``                   the page structure of a page frame; ``zone(0)`` of a node's zone
``object(812, 3)``              address of an object of a slab
``slab_alloc.object``           a local variable of the innermost frame of a function on the CPU looked at
``object``                      of the innermost function that has one
``cpu(2).clock``                clock, state, irq, preempt, depth, pc, micro_ops of a CPU
``ALLOC_SLOWPATH``              a counter, over all CPUs; ``counter(ALLOC_SLOWPATH, 2)`` of one
``0x1400000``, ``0x1400000:4``  the word of 8 or 4 bytes at an address
``cast(page, c.page).flags``    another struct behind a pointer
==============================  ==========================================================================

A field of a pointer is the field of what it leads to, as in the kernel language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slubviz.model.errors import UserError
from slubviz.model.travel.watch_eval import Lookup, Result
from slubviz.model.travel.watch_grammar import Node, WatchError, read_watch

if TYPE_CHECKING:
    from slubviz.model.session import Session

__all__ = ["WatchError", "WatchItem", "WatchValue", "evaluate", "watch", "word_of"]


@dataclass(frozen=True)
class WatchItem:
    """An expression that was read; ``WatchItem.parse`` makes one."""

    text: str  #: as it was typed
    node: Node

    @classmethod
    def parse(cls, text: str) -> WatchItem:
        """Read an expression.

        Raises
        ------
        WatchError
            If it is none; names are looked up later.
        """
        return cls(text.strip(), read_watch(text))


@dataclass(frozen=True)
class WatchValue:
    """What an expression comes to at one moment."""

    item: str  #: the expression's text
    text: str  #: for people; "" if there is an error
    value: int | None  #: None if there is an error, or if it is a whole struct
    changed: bool  #: another value than at the last look
    error: str  #: one line: why there is no value; else ""
    address: int | None = None  #: of what was read, for watching or inspecting it; None for a register
    size_bytes: int = 8  #: of that word
    type: str = ""  #: as written in the program


def evaluate(session: Session, item: WatchItem, cpu: int = 0, before: WatchValue | None = None) -> WatchValue:
    """The value of an expression at the cursor.  An expression without a value has an error instead.

    Parameters
    ----------
    cpu : the CPU that is looked at, for ``this_cpu`` and local variables
    before : the value at the last look
    """
    try:
        result = Lookup(session.booted, cpu).value_of(item.node)
    except UserError as error:
        text = str(error)
        return WatchValue(item.text, "", None, before is not None and before.error != text, text)
    changed = before is not None and (before.value, before.text) != (result.value, result.text)
    return WatchValue(
        item.text, result.text, result.value, changed, "", result.address, result.size_bytes, result.type_name
    )


def watch(
    session: Session, texts: Sequence[str], cpu: int = 0, before: Sequence[WatchValue] = ()
) -> tuple[WatchValue, ...]:
    """``evaluate`` for a list of expressions as they were typed.

    Parameters
    ----------
    before : the values at the last look, in any order; found by their text
    """
    known = {value.item: value for value in before}
    found = []
    for text in texts:
        last = known.get(text.strip())
        try:
            found.append(evaluate(session, WatchItem.parse(text), cpu, last))
        except WatchError as error:
            found.append(WatchValue(text.strip(), "", None, False, str(error)))
    return tuple(found)


def word_of(session: Session, text: str, cpu: int = 0) -> tuple[int, int]:
    """Address and size in bytes of the word that an expression reads now.

    Raises
    ------
    WatchError
        If it is no expression, or reads no single word of memory.
    """
    result: Result = Lookup(session.booted, cpu).value_of(WatchItem.parse(text).node)
    if result.address is None or result.value is None:
        raise WatchError(f"watch {text.strip()}: this is no word in memory, so no change of it can be found")
    return result.address, result.size_bytes
