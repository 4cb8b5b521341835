"""What must hold in SLAB's structures while no CPU is inside the allocator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.model.booted import BootedKernel
from slubviz.model.families.family import CachesCheck
from slubviz.model.families.slab_start import alien_limit
from slubviz.model.page_lists import page_flag
from slubviz.model.slab_memory import CHAIN_OUTSIDE, CHAIN_TWICE, CHAIN_UNREADABLE
from slubviz.model.slab_view import CacheView, list3_addresses, read_cache
from slubviz.model.snapshot import ObjectState

IntArray = NDArray[np.int64]
_CHAIN_ERRORS = {
    CHAIN_OUTSIDE: "has a chain that leads to an index beyond its objects",
    CHAIN_TWICE: "has a chain that holds an object twice",
    CHAIN_UNREADABLE: "has a structure or a chain that cannot be read",
}
_MOST_LINES = 4  # of one complaint about many slabs


@dataclass(frozen=True)
class _Checked:
    """One cache that could be read."""

    index: int
    name: str
    view: CacheView


def check_caches(kernel: BootedKernel) -> CachesCheck:
    """Every kmalloc cache."""
    problems: list[str] = []
    seen: dict[int, _Checked] = {}
    slab_pages = 0
    for index in kernel.family.cache_sizes(kernel.machine.spec):
        name = kernel.cache_name(index)
        try:
            view = read_cache(kernel, index)
        except ValueError as error:
            problems.append(f"{name}: {error}")
            continue
        seen[index] = _Checked(index, name, view)
        problems += _check_cache(kernel, seen[index])
        order = int(kernel.memory.one(kernel.cache_address(index), "kmem_cache")["gfporder"])
        slab_pages += len(view.table.page_frame) << order
    management, more = _check_management(kernel, seen)
    states = [cache.view.table.object_state for cache in seen.values()]
    handed_out = sum(int((state == ObjectState.ALLOCATED).sum()) for state in states)
    return CachesCheck(problems + more, handed_out - management, slab_pages)


def _some(name: str, frames: Iterable[int], what: str) -> list[str]:
    return [f"{name}: slab of page {int(frame)} {what}" for frame in list(frames)[:_MOST_LINES]]


def _check_cache(kernel: BootedKernel, cache: _Checked) -> list[str]:
    return [
        *_check_slabs(kernel, cache),
        *_check_lists(cache),
        *_check_nodes(kernel, cache),
        *_check_arrays(kernel, cache),
    ]


def _check_slabs(kernel: BootedKernel, cache: _Checked) -> list[str]:
    """Each slab for itself: its structure, its chain, its pages."""
    view, table = cache.view, cache.view.table
    record = kernel.memory.one(kernel.cache_address(cache.index), "kmem_cache")
    problems: list[str] = []
    if not len(table.page_frame):
        return problems

    def complain(slabs: NDArray[np.bool_], what: str) -> None:
        problems.extend(_some(cache.name, table.page_frame[slabs], what))

    for code, text in _CHAIN_ERRORS.items():
        complain(view.chain == code, text)
    sound = view.readable & (view.chain >= 0)
    complain(
        sound & (table.inuse + view.chain != table.objects),
        "has a use count that does not match the length of its chain",
    )
    complain(view.readable & (view.nodeid != table.node), "notes another node than its pages have")
    base = table.page_frame * kernel.machine.spec.page_size_bytes
    complain(view.readable & (view.s_mem != base + view.colouroff), "has objects that start elsewhere")
    colour, in_front = view.colouroff, np.zeros(len(base), dtype=np.int64)
    off_slab = bool(record["flags"] & kernel.program.constants["CFLGS_OFF_SLAB"])
    if not off_slab:
        in_front += int(record["slab_size"])
        colour = view.colouroff - in_front
        complain(view.readable & (view.slab_address != base + colour), "has its structure at a wrong place")
    number, rest = np.divmod(colour, max(int(record["colour_off"]), 1))
    wrong = (rest != 0) | (number < 0) | (number >= max(int(record["colour"]), 1))
    complain(view.readable & wrong, "has a colour that its cache does not have")
    pages = kernel.memory.global_structs("mem_map")
    complain(pages["_count"][table.page_frame] != 1, "has a page reference count that is not 1")
    of_slab = table.page_frame[:, None] + np.arange(1 << int(record["gfporder"]))
    marked = page_flag(kernel, pages["flags"][of_slab].astype(np.int64), "PG_slab")
    complain(np.logical_and.reduce(marked, axis=1) == 0, "has a page that is not marked as a slab's")
    return problems


def _check_lists(cache: _Checked) -> list[str]:
    """Each slab is on one list of its node, the one that its use count says."""
    view, table, name = cache.view, cache.view.table, cache.name
    problems: list[str] = []
    listed = np.zeros(len(table.page_frame), dtype=np.int64)
    full, free = table.inuse >= table.objects, table.inuse == 0
    belongs = {"slabs_full": full, "slabs_free": free & ~full, "slabs_partial": ~full & ~free}
    order = np.argsort(view.slab_address, kind="stable")
    ascending = view.slab_address[order]
    for (node, which), entries in view.lists.items():
        at = np.minimum(np.searchsorted(ascending, entries), max(len(ascending) - 1, 0))
        known = ascending[at] == entries if len(ascending) else np.zeros(len(entries), dtype=np.bool_)
        problems += [
            f"{name}: {int(address):#x} on {which} of node {node} is no slab of it"
            for address in entries[~known][:_MOST_LINES]
        ]
        slabs = order[at[known]]
        np.add.at(listed, slabs, 1)
        wrong = slabs[table.node[slabs] != node]
        problems += _some(name, table.page_frame[wrong], f"is on a list of node {node}, but not of that node")
        wrong = slabs[~belongs[which][slabs]]
        problems += _some(name, table.page_frame[wrong], f"is on {which} with a use count for another list")
    problems += _some(name, table.page_frame[listed == 0], "is on no list")
    problems += _some(name, table.page_frame[listed > 1], "is on the lists more than once")
    return problems


def _check_nodes(kernel: BootedKernel, cache: _Checked) -> list[str]:
    """Counts, limits and locks of each kmem_list3."""
    table, spec = cache.view.table, kernel.machine.spec
    record = kernel.memory.one(kernel.cache_address(cache.index), "kmem_cache")
    free = table.objects - table.inuse
    problems = []
    for node, address in enumerate(list3_addresses(kernel, cache.index)):
        lists = kernel.memory.one(address, "kmem_list3")
        where = f"{cache.name}, node {node}:"
        counted, really = int(lists["free_objects"]), int(free[table.node == node].sum())
        if counted != really:
            problems.append(f"{where} free_objects is {counted}, its slabs have {really}")
        colour = int(lists["colour_next"])
        if colour >= max(int(record["colour"]), 1):
            problems.append(f"{where} colour_next is {colour}, there are {int(record['colour'])} colours")
        cpus = min(spec.cpus_per_node, spec.cpus - node * spec.cpus_per_node)
        limit = (1 + cpus) * int(record["batchcount"]) + int(record["num"])
        if int(lists["free_limit"]) != limit:
            problems.append(f"{where} free_limit is {int(lists['free_limit'])}, not {limit}")
        if lists["list_lock"]:
            problems.append(f"{where} list_lock is taken")
        if lists["free_touched"] not in (0, 1):
            problems.append(f"{where} free_touched is {int(lists['free_touched'])}")
    return problems


def _check_arrays(kernel: BootedKernel, cache: _Checked) -> list[str]:
    """Arrays: within their limits, only objects of this cache and node, none that is elsewhere too."""
    view, table = cache.view, cache.view.table
    record = kernel.memory.one(kernel.cache_address(cache.index), "kmem_cache")
    batch, limit = int(record["batchcount"]), int(record["limit"])
    limits = {
        "cpu": limit,
        "shared": int(record["shared"]) * batch,
        "alien": alien_limit(limit, kernel.program.constants["ALIEN_LIMIT"]),
    }
    problems = []
    held = np.zeros(len(table.object_state), dtype=np.int64)
    for array, places in zip(view.arrays, view.array_object, strict=True):
        where = f"{cache.name}, {array.name}:"
        header = kernel.memory.one(array.address, "array_cache")
        if int(header["limit"]) != limits[array.kind]:
            problems.append(f"{where} the limit is {int(header['limit'])}, not {limits[array.kind]}")
        if int(header["avail"]) > limits[array.kind]:
            problems.append(f"{where} {int(header['avail'])} objects are more than its limit")
        if array.kind == "cpu" and int(header["batchcount"]) != batch:
            problems.append(f"{where} the batch is {int(header['batchcount'])}, not {batch}")
        if header["touched"] not in (0, 1):
            problems.append(f"{where} touched is {int(header['touched'])}")
        if header["lock"]:
            problems.append(f"{where} its lock is taken")
        wrong = array.entries[places < 0][:_MOST_LINES]
        problems += [f"{where} {int(address):#x} is no object of this cache" for address in wrong]
        known = places[places >= 0]
        np.add.at(held, known, 1)
        away = known[table.node[known // max(int(record["num"]), 1)] != array.node]
        problems += [f"{where} holds object {int(place)} of another node" for place in away[:_MOST_LINES]]
    problems += _some_objects(cache, held > 1, "is in the arrays more than once")
    problems += _some_objects(cache, (held > 0) & view.on_chain, "is in an array and on its chain")
    return problems


def _some_objects(cache: _Checked, which: NDArray[np.bool_], what: str) -> list[str]:
    table = cache.view.table
    problems = []
    for place in np.flatnonzero(which)[:_MOST_LINES]:
        slab, number = divmod(int(place), int(table.objects[0]))
        problems.append(f"{cache.name}: object {number} of the slab of page {table.page_frame[slab]} {what}")
    return problems


def _check_management(kernel: BootedKernel, seen: dict[int, _Checked]) -> tuple[int, list[str]]:
    """Structures of slabs that are objects of other caches: each is handed out there, to one slab.

    Returns
    -------
    (their number, what is wrong)
    """
    total, problems = 0, []
    index_of = {kernel.cache_address(index): index for index in seen}
    owner: dict[int, str] = {}
    for cache in seen.values():
        record = kernel.memory.one(kernel.cache_address(cache.index), "kmem_cache")
        if not record["flags"] & kernel.program.constants["CFLGS_OFF_SLAB"]:
            continue
        serving = index_of.get(int(record["slabp_cache"]))
        if serving is None:
            problems.append(f"{cache.name}: slabp_cache is no kmalloc cache")
            continue
        other = seen[serving]
        total += len(cache.view.table.page_frame)
        places = other.view.position(cache.view.slab_address)
        for frame, address, place in zip(
            cache.view.table.page_frame, cache.view.slab_address.tolist(), places.tolist(), strict=True
        ):
            where = f"{cache.name}: slab of page {int(frame)} has a structure that"
            if place < 0 or other.view.table.object_state[place] != ObjectState.ALLOCATED:
                problems.append(f"{where} is no object handed out from {other.name}")
            elif address in owner:
                problems.append(f"{where} is that of {owner[address]} too")
            owner[address] = f"{cache.name}, page {int(frame)}"
    return total, problems
