"""Facts about one thing of a running kernel: an object, a slab, a lock, a list, a CPU.

``inspect`` says what is known of a target at the cursor; ``find_target`` reads what a user types, and
``target_at`` finds out what an address is of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slubviz.model.booted import BootedKernel
from slubviz.model.errors import UserError, quoted, unknown_name
from slubviz.model.symbols import lock_name
from slubviz.model.travel.call_stack import call_stack
from slubviz.model.travel.inspect_cpus import inspect_cpu, inspect_lock
from slubviz.model.travel.inspect_slabs import (
    inspect_list,
    inspect_object,
    inspect_slab,
    object_address,
    slab_lists,
)
from slubviz.model.travel.inspection import (
    CpuTarget,
    Inspection,
    ListTarget,
    LockTarget,
    ObjectTarget,
    Row,
    SlabTarget,
    Target,
)
from slubviz.model.travel.places import PlaceKind, SlabPlace, frame_of_page, place_of, slab_of_frame
from slubviz.model.travel.structures import located
from slubviz.model.travel.watched import Watched, WatchedList, WatchedLock, WatchedSlab

if TYPE_CHECKING:
    from slubviz.model.session import Session
    from slubviz.model.travel.object_history import ObjectEvent

__all__ = [
    "CpuTarget",
    "Inspection",
    "ListTarget",
    "LockTarget",
    "ObjectTarget",
    "Row",
    "SlabTarget",
    "Target",
    "find_target",
    "inspect",
    "known_targets",
    "target_at",
    "with_history",
]

#: Structures that ``inspect_list`` can show.
_LISTS = ("list_head", "array_cache", "kmem_cache_cpu")
_OBJECT = re.compile(r"(?:object\s+)?(\d+)\s*/\s*(\d+)$")
_SLAB = re.compile(r"(?:slab\s+)?(\d+)$")
_CPU = re.compile(r"cpu\s*(\d+)$", re.IGNORECASE)
_ADDRESS = re.compile(r"0x[0-9a-f]{1,16}$", re.IGNORECASE)


def inspect(session: Session, target: Target) -> Inspection:
    """Facts about a target at the cursor.

    Raises
    ------
    UserError
        If there is no such thing now, e.g. no slab in that page.
    """
    kernel = session.booted
    match target:
        case ObjectTarget(address=address):
            return inspect_object(kernel, address)
        case SlabTarget(page_frame=frame):
            return inspect_slab(kernel, frame)
        case LockTarget(address=address):
            return inspect_lock(kernel, address)
        case ListTarget(address=address):
            return inspect_list(kernel, address)
        case CpuTarget(cpu=cpu):
            _check_cpu(kernel, cpu)
            return inspect_cpu(kernel, call_stack(session, cpu))


def with_history(inspection: Inspection, history: Sequence[ObjectEvent], position: int) -> Inspection:
    """An object's inspection with who allocated and freed it last before a position.

    Parameters
    ----------
    history : of that object, from the start of the run
    position : micro-ops, of the inspection
    """
    rows = []
    past = [event for event in history if event.position <= position]
    for name, allocated in (("allocated last", True), ("freed last", False)):
        events = [event for event in past if event.allocated == allocated]
        if events:
            last = events[-1]
            where = " in an interrupt" if last.in_interrupt else ""
            text = f"by {last.caller} on CPU {last.cpu}{where}, cycle {last.cycle:,.0f} ({last.function})"
            rows.append(Row(name, text, position=last.position))
        else:
            rows.append(Row(name, "not since the start of the run"))
    return Inspection(inspection.title, (*inspection.rows, *rows), inspection.target)


def target_at(session: Session, address: int) -> Target:
    """What can be inspected at an address: an object, a slab, a list or the word of a lock.

    Raises
    ------
    UserError
        If nothing known is there.
    """
    kernel = session.booted
    place = place_of(kernel, address)
    match place.kind:
        case PlaceKind.OBJECT:
            return ObjectTarget(address)
        case PlaceKind.SLAB | PlaceKind.END:
            assert place.slab is not None
            return SlabTarget(place.slab.page_frame)
        case PlaceKind.STRUCTURE:
            found = _structure_target(kernel, address)
            if found is not None:
                return found
        case _:
            pass
    what = "no memory" if place.kind in (PlaceKind.NULL, PlaceKind.UNKNOWN) else place.text
    raise UserError(f"nothing to inspect at {address:#x}: {what}")


def _structure_target(kernel: BootedKernel, address: int) -> Target | None:
    around = located(kernel.program, address)
    frame = frame_of_page(kernel, address)
    if frame is not None:
        # The lock of a slab is a bit of its page's flags, which is where the page structure begins.
        return SlabTarget(frame) if slab_of_frame(kernel, frame) else None
    if any(one.address == address and one.struct in _LISTS for one in around):
        return ListTarget(address)
    return LockTarget(address) if "lock" in around[-1].path.rpartition(".")[2] else None


def known_targets(kernel: BootedKernel) -> dict[str, Target]:
    """Everything that has a name: CPUs, locks and lists; for completion and ``find_target``."""
    found: dict[str, Target] = {f"CPU {cpu}": CpuTarget(cpu) for cpu in range(kernel.machine.spec.cpus)}
    for node in range(kernel.machine.spec.nodes):
        zone = kernel.memory.global_address("zones", node)
        address = kernel.memory.field_address(zone, "zone", "lock")
        found[lock_name(kernel, address)] = LockTarget(address)
    for cache in kernel.family.cache_sizes(kernel.machine.spec):
        for name, head in slab_lists(kernel, cache):
            found[name] = ListTarget(head)
            lock = _list_lock(kernel, head)
            if lock is not None:
                found[lock_name(kernel, lock)] = LockTarget(lock)
        found |= _cpu_lists(kernel, cache)
    return found


def _list_lock(kernel: BootedKernel, head: int) -> int | None:
    for one in reversed(located(kernel.program, head)):
        if one.struct in ("kmem_cache_node", "kmem_list3"):
            return kernel.memory.field_address(one.address, one.struct, "list_lock")
    return None


def _cpu_lists(kernel: BootedKernel, cache: int) -> dict[str, Target]:
    if kernel.family.name == "slab":
        from slubviz.model.slab_view import read_arrays

        return {
            f"{kernel.cache_name(cache)} {_array_name(array.name)}": ListTarget(array.address)
            for array in read_arrays(kernel, cache)
        }
    size = kernel.program.struct("kmem_cache_cpu").size_bytes
    return {
        f"{kernel.cache_name(cache)} cpu slab of CPU {cpu}": ListTarget(
            kernel.memory.global_address("cache_cpus", cpu) + cache * size
        )
        for cpu in range(kernel.machine.spec.cpus)
    }


def _array_name(name: str) -> str:
    return f"array of {name}" if name.startswith("CPU") else name


def watched_of(target: Target) -> Watched | None:
    """What "next change" means for a target: a whole slab, lock or list; None for other things."""
    match target:
        case SlabTarget(page_frame):
            return WatchedSlab(page_frame)
        case LockTarget(address):
            return WatchedLock(address)
        case ListTarget(address):
            return WatchedList(address)
        case _:
            return None


def find_target(session: Session, text: str) -> Target:
    """What a user means: ``812/3`` (an object), ``812`` (a slab), an address in hex, ``cpu 0``, or the name
    of a lock or list (``known_targets``).

    Raises
    ------
    UserError
        If it names nothing.
    """
    kernel, wanted = session.booted, " ".join(text.split())
    if match := _OBJECT.match(wanted):
        slab = _slab(kernel, match[1])
        index = _number(match[2])
        if index >= slab.objects:
            raise UserError(f"slab {slab.page_frame} has objects 0 to {slab.objects - 1}")
        return ObjectTarget(object_address(slab, index))
    if match := _SLAB.match(wanted):
        return SlabTarget(_slab(kernel, match[1]).page_frame)
    if match := _CPU.match(wanted):
        _check_cpu(kernel, _number(match[1]))
        return CpuTarget(_number(match[1]))
    if _ADDRESS.match(wanted):
        return target_at(session, int(wanted, 16))
    names = known_targets(kernel)
    for name, target in names.items():
        if name.lower() == wanted.lower():
            return target
    if not wanted:
        raise UserError("what shall be inspected? Write an object (812/3), a slab (812), cpu 0 or an address")
    near = str(unknown_name("thing to inspect", wanted, names)).partition(" (known")[0]
    raise UserError(
        f"{near}: write an address, a slab (812), an object (812/3), cpu 0 or a lock's or list's name"
    )


def _number(digits: str) -> int:
    return int(digits[:18])  # no such number exists anyway


def _slab(kernel: BootedKernel, digits: str) -> SlabPlace:
    slab = slab_of_frame(kernel, _number(digits))
    if slab is None:
        raise UserError(f"page frame {quoted(digits)} is of no slab now")
    return slab


def _check_cpu(kernel: BootedKernel, cpu: int) -> None:
    cpus = kernel.machine.spec.cpus
    if not 0 <= cpu < cpus:
        raise UserError(f"CPU {cpu} does not exist; this machine has CPUs 0 to {cpus - 1}")
