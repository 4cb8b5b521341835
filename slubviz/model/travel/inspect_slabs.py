"""Facts about objects, slabs and the lists that hold them, for every family of allocators.

Works in the middle of an operation: what makes no sense just now is said, not raised.
"""

from __future__ import annotations

import re

import numpy as np

from slubviz.model.booted import BootedKernel
from slubviz.model.errors import UserError
from slubviz.model.memory_scan import read_pointer
from slubviz.model.page_lists import list_frames
from slubviz.model.snapshot import ObjectState, SlabState, SlabTable
from slubviz.model.travel.inspection import (
    CpuTarget,
    Inspection,
    ListTarget,
    LockTarget,
    ObjectTarget,
    Row,
    SlabTarget,
)
from slubviz.model.travel.places import (
    UNREADABLE,
    Place,
    PlaceKind,
    SlabPlace,
    page_address,
    place_of,
    slab_of_frame,
    structure_text,
)
from slubviz.model.travel.structures import Located, located, read_field

#: Members of a list that are named one by one.
MOST_MEMBERS = 64
_STATES = {SlabState.EMPTY: "empty", SlabState.PARTIAL: "partly used", SlabState.FULL: "full"}


def table_row(kernel: BootedKernel, slab: SlabPlace) -> tuple[SlabTable, int] | None:
    """The table of all slabs of a slab's cache, and its place there; None if the lists make no sense."""
    try:
        table = kernel.family.read_slabs(kernel, slab.cache).table
    except UNREADABLE:
        return None
    at = int(np.searchsorted(table.page_frame, slab.page_frame))
    found = at < len(table.page_frame) and table.page_frame[at] == slab.page_frame
    return (table, at) if found else None


def object_address(slab: SlabPlace, index: int) -> int:
    """Address of an object's first byte."""
    return slab.first_object + index * slab.size_bytes


# --- objects ------------------------------------------------------------------------------------------
def inspect_object(kernel: BootedKernel, address: int) -> Inspection:
    """Where an object is.

    Raises
    ------
    UserError
        If there is no object at that address now.
    """
    place = place_of(kernel, address)
    if place.kind != PlaceKind.OBJECT or place.slab is None:
        raise UserError(f"there is no object at {address:#x}: {_what_is(place)}")
    slab, index = place.slab, place.index
    start = object_address(slab, index)
    row = table_row(kernel, slab)
    rows = [_state_row(kernel, slab, index, row)]
    rows.append(Row("slab", _slab_text(slab, row), SlabTarget(slab.page_frame)))
    rows.append(Row("cache", f"{slab.cache_name}, objects of {slab.size_bytes:,} bytes"))
    rows.append(Row("address", f"{start:#x}"))
    try:
        word = int(read_pointer(kernel.machine.state, start, kernel.program.target.word_bytes))
    except UNREADABLE:
        word = -1
    if word >= 0:
        target = place_of(kernel, word)
        link = ObjectTarget(word) if target.kind == PlaceKind.OBJECT else None
        rows.append(Row("first word", target.text if word else "0", link))
    return Inspection(
        f"object {index} of slab {slab.page_frame} ({slab.cache_name})", tuple(rows), ObjectTarget(start)
    )


def _what_is(place: Place) -> str:
    return "no memory" if place.kind in (PlaceKind.NULL, PlaceKind.UNKNOWN) else place.text


def _state_row(kernel: BootedKernel, slab: SlabPlace, index: int, found: tuple[SlabTable, int] | None) -> Row:
    if found is None:
        return Row("state", "not known: the lists of its cache make no sense just now")
    table, at = found
    state = ObjectState(int(table.object_state[int(table.first_object[at]) + index]))
    if state == ObjectState.ALLOCATED:
        return Row("state", "allocated")
    address = object_address(slab, index)
    if state == ObjectState.FREE:
        members = own_freelist(kernel, slab)
        return Row(
            "state", f"free, on the slab's freelist{_nth(members, index)}", SlabTarget(slab.page_frame)
        )
    if kernel.family.name == "slab":
        return _array_row(kernel, slab, address)
    cpu = int(table.cpu[at])
    members = cpu_freelist(kernel, slab, cpu)
    return Row("state", f"free, on the freelist of CPU {cpu}{_nth(members, index)}", CpuTarget(cpu))


def _nth(members: list[int], index: int) -> str:
    if index not in members:
        return ""
    return f", number {members.index(index) + 1} of {len(members)}"


def _array_row(kernel: BootedKernel, slab: SlabPlace, address: int) -> Row:
    from slubviz.model.slab_view import read_arrays

    for array in read_arrays(kernel, slab.cache):
        held = array.entries.tolist()[::-1]  # the last one in is handed out first
        if address in held:
            name = f"array of {array.name}" if array.kind == "cpu" else array.name
            text = f"free, in the {name}{_nth(held, address)}"
            return Row("state", text, ListTarget(array.address))
    return Row("state", "free")


def own_freelist(kernel: BootedKernel, slab: SlabPlace) -> list[int]:
    """Numbers of the objects on a slab's own freelist, the first to be handed out first."""
    try:
        if kernel.family.name == "slab":
            return _chain(kernel, slab)
        return _walk(kernel, slab, read_field(kernel, slab.structure, "page", "freelist"))
    except UNREADABLE:
        return []


def cpu_freelist(kernel: BootedKernel, slab: SlabPlace, cpu: int) -> list[int]:
    """Numbers of the objects of a slab on the freelist of the CPU that owns it, in order."""
    from slubviz.model.slub_view import cpu_freelists, cpu_slabs

    try:
        if kernel.family.name == "slub_lockless":
            head = int(cpu_slabs(kernel, slab.cache)["freelist"][cpu])
        else:
            head = int(cpu_freelists(kernel, slab.cache)[cpu])
    except UNREADABLE:
        return []
    return _walk(kernel, slab, head)


def _walk(kernel: BootedKernel, slab: SlabPlace, head: int) -> list[int]:
    found: list[int] = []
    address = head
    while address and not address & 1 and len(found) <= slab.objects:
        index, rest = divmod(address - slab.first_object, slab.size_bytes)
        if rest or not 0 <= index < slab.objects or index in found:
            break
        found.append(index)
        address = int(read_pointer(kernel.machine.state, address, kernel.program.target.word_bytes))
    return found


def _chain(kernel: BootedKernel, slab: SlabPlace) -> list[int]:
    """SLAB: the indices that follow struct slab."""
    first = slab.structure + kernel.program.struct("slab").size_bytes
    found: list[int] = []
    index = read_field(kernel, slab.structure, "slab", "free")
    while index < slab.objects and index not in found:
        found.append(index)
        index = kernel.machine.read(first + 4 * index, 4)
    return found


# --- slabs --------------------------------------------------------------------------------------------
def inspect_slab(kernel: BootedKernel, page_frame: int) -> Inspection:
    """Where a slab is, and what is in it.

    Raises
    ------
    UserError
        If no slab is in that page now.
    """
    slab = slab_of_frame(kernel, page_frame)
    if slab is None:
        raise UserError(f"page frame {page_frame} is of no slab now")
    found = table_row(kernel, slab)
    rows = [Row("cache", f"{slab.cache_name}: {slab.objects} objects of {slab.size_bytes:,} bytes")]
    if found is None:
        rows.append(Row("state", "not known: the lists of its cache make no sense just now"))
    else:
        rows += _table_rows(kernel, slab, *found)
    free = own_freelist(kernel, slab)
    rows.append(_objects_row("own freelist", slab, free))
    if found is not None and int(found[0].cpu[found[1]]) >= 0:
        cpu = int(found[0].cpu[found[1]])
        rows.append(_objects_row(f"freelist of CPU {cpu}", slab, cpu_freelist(kernel, slab, cpu)))
    rows.append(Row("structure", place_of(kernel, slab.structure).text))
    title = f"slab {slab.page_frame} ({slab.cache_name})"
    return Inspection(title, tuple(rows), SlabTarget(slab.page_frame))


def _objects_row(name: str, slab: SlabPlace, members: list[int]) -> Row:
    if not members:
        return Row(name, "empty")
    shown = ", ".join(str(index) for index in members[:MOST_MEMBERS])
    more = ", …" if len(members) > MOST_MEMBERS else ""
    return Row(name, f"{len(members)}: {shown}{more}", ObjectTarget(object_address(slab, members[0])))


def _table_rows(kernel: BootedKernel, slab: SlabPlace, table: SlabTable, at: int) -> list[Row]:
    first, end = int(table.first_object[at]), int(table.first_object[at + 1])
    allocated = int((table.object_state[first:end] == ObjectState.ALLOCATED).sum())
    frozen = ", frozen" if table.frozen[at] else ""
    rows = [
        Row("state", f"{_STATES[SlabState(int(table.state[at]))]}{frozen}"),
        _where_row(kernel, slab, table, at),
        Row("allocated", f"{allocated} of {slab.objects}; its own counter says {int(table.inuse[at])}"),
        Row("node", str(int(table.node[at]))),
    ]
    if table.locked[at]:
        lock = (
            page_address(kernel, slab.page_frame) + kernel.program.struct("page").fields["flags"].offset_bytes
        )
        rows.append(Row("slab lock", "taken", LockTarget(lock)))
    if table.cpu[at] < 0 <= table.last_cpu[at]:
        rows.append(Row("last used by", f"CPU {int(table.last_cpu[at])}", CpuTarget(int(table.last_cpu[at]))))
    return rows


def _where_row(kernel: BootedKernel, slab: SlabPlace, table: SlabTable, at: int) -> Row:
    if table.cpu[at] >= 0:
        return Row("where", f"cpu slab of CPU {int(table.cpu[at])}", CpuTarget(int(table.cpu[at])))
    if table.on_cpu_partial[at] >= 0:
        cpu = int(table.on_cpu_partial[at])
        return Row(
            "where", f"on the partial chain of CPU {cpu}", ListTarget(_cpu_structure(kernel, slab, cpu))
        )
    for name, head in slab_lists(kernel, slab.cache):
        try:
            members = list_members(kernel, head)
        except UNREADABLE:
            continue
        if slab.page_frame in members:
            return Row("where", f"{name}{_nth(members, slab.page_frame)}", ListTarget(head))
    return Row("where", "on no list")


def _slab_text(slab: SlabPlace, found: tuple[SlabTable, int] | None) -> str:
    text = f"slab {slab.page_frame}"
    if found is None:
        return text
    table, at = found
    if table.cpu[at] >= 0:
        return f"{text}, cpu slab of CPU {int(table.cpu[at])}"
    return f"{text}, {_STATES[SlabState(int(table.state[at]))]}"


# --- lists --------------------------------------------------------------------------------------------
def _cpu_structure(kernel: BootedKernel, slab: SlabPlace, cpu: int) -> int:
    size = kernel.program.struct("kmem_cache_cpu").size_bytes
    return kernel.memory.global_address("cache_cpus", cpu) + slab.cache * size


def slab_lists(kernel: BootedKernel, cache: int) -> list[tuple[str, int]]:
    """Name and head of each list of slabs of a cache, by node."""
    found = []
    for node, (address, struct, names) in enumerate(node_structures(kernel, cache)):
        for name in names:
            head = kernel.memory.field_address(address, struct, name)
            found.append((f"{name} list of {kernel.cache_name(cache)} node {node}", head))
    return found


def node_structures(kernel: BootedKernel, cache: int) -> list[tuple[int, str, tuple[str, ...]]]:
    """Address of what a cache has for each node, its struct, and the names of the lists in it."""
    family = kernel.family.name
    if family == "slab":
        from slubviz.model.families.slab_start import LISTS
        from slubviz.model.slab_view import list3_addresses

        return [(address, "kmem_list3", LISTS) for address in list3_addresses(kernel, cache)]
    if family == "slub_lockless":
        from slubviz.model.slub_lockless_view import node_addresses
    else:
        from slubviz.model.slub_view import node_addresses
    return [(address, "kmem_cache_node", ("partial",)) for address in node_addresses(kernel, cache)]


def list_members(kernel: BootedKernel, head: int) -> list[int]:
    """First page frames of the slabs on a list, in order.

    Raises
    ------
    ValueError
        If the list makes no sense just now.
    """
    if kernel.family.name != "slab":
        return [int(frame) for frame in list_frames(kernel, head, strict=False)]
    from slubviz.model.slab_view import read_cache

    path = located(kernel.program, head)[-2].path if located(kernel.program, head) else ""
    match = re.match(r"cache_list3\[(\d+)\]\[(\d+)\]\.(\w+)$", path)
    if match is None:
        raise ValueError("it is no list of slabs")
    view = read_cache(kernel, int(match[2]), strict=False)
    frames = dict(zip(view.slab_address.tolist(), view.table.page_frame.tolist(), strict=True))
    listed = view.lists.get((int(match[1]), match[3]), np.zeros(0, dtype=np.int64))
    return [frames[address] for address in listed.tolist() if address in frames]


def inspect_list(kernel: BootedKernel, address: int) -> Inspection:
    """What is on a list: slabs of a node's list, objects of a SLAB array or of a CPU's freelist.

    Raises
    ------
    UserError
        If there is no list at that address.
    """
    around = located(kernel.program, address)
    at = {one.struct: one for one in around if one.address == address}
    if "kmem_cache_cpu" in at:
        return _cpu_list(kernel, at["kmem_cache_cpu"])
    if "array_cache" in at:
        return _array_list(kernel, at["array_cache"])
    if "list_head" in at:
        return _slab_list(kernel, at["list_head"])
    raise UserError(f"there is no list at {address:#x}: {_what_is(place_of(kernel, address))}")


def _slab_list(kernel: BootedKernel, head: Located) -> Inspection:
    title = list_name(kernel, head.path)
    of_slabs = head.path.startswith("cache_list3")
    try:
        if of_slabs:
            frames = list_members(kernel, head.address)
        else:
            frames = [int(frame) for frame in list_frames(kernel, head.address, strict=False)]
    except UNREADABLE as error:
        rows: tuple[Row, ...] = (Row("members", f"makes no sense just now: {error}"),)
        return Inspection(title, rows, ListTarget(head.address))
    return Inspection(title, tuple(_slab_members(kernel, frames)), ListTarget(head.address))


#: Path of a list of slabs -> its name, node and cache.
_LIST_PATHS = (
    re.compile(r"cache_(?:list3|nodes)\[(?P<node>\d+)\]\[(?P<cache>\d+)\]\.(?P<name>\w+)$"),
    re.compile(r"kmalloc_caches\.cache\[(?P<cache>\d+)\]\.local_node\.(?P<name>\w+)$"),
)


def list_name(kernel: BootedKernel, path: str) -> str:
    """What people call a list at a path, ``partial list of kmalloc-64 node 0``."""
    for pattern in _LIST_PATHS:
        match = pattern.match(path)
        if match and int(match["cache"]) in kernel.family.cache_sizes(kernel.machine.spec):
            node = match.groupdict().get("node", "0")
            return f"{match['name']} list of {kernel.cache_name(int(match['cache']))} node {node}"
    return structure_text(kernel, path)


def _slab_members(kernel: BootedKernel, frames: list[int]) -> list[Row]:
    rows = [Row("members", f"{len(frames):,}")]
    for number, frame in enumerate(frames[:MOST_MEMBERS], 1):
        slab = slab_of_frame(kernel, frame)
        if slab is None:
            rows.append(Row(str(number), f"page of pfn {frame}"))
            continue
        free = len(own_freelist(kernel, slab))
        text = f"slab {frame}, {free} of {slab.objects} objects free"
        rows.append(Row(str(number), text, SlabTarget(frame)))
    if len(frames) > MOST_MEMBERS:
        rows.append(Row("", f"and {len(frames) - MOST_MEMBERS:,} more"))
    return rows


def _object_members(kernel: BootedKernel, addresses: list[int]) -> list[Row]:
    rows = [
        Row(str(number), place_of(kernel, address).text, ObjectTarget(address))
        for number, address in enumerate(addresses[:MOST_MEMBERS], 1)
    ]
    if len(addresses) > MOST_MEMBERS:
        rows.append(Row("", f"and {len(addresses) - MOST_MEMBERS:,} more"))
    return rows


def _array_list(kernel: BootedKernel, array: Located) -> Inspection:
    program, word = kernel.program, kernel.program.target.word_bytes
    entry = program.struct("array_cache").fields["entry"].offset_bytes
    outer = [one for one in located(program, array.address) if one.address == array.address and one.struct]
    room = (max(program.struct(one.struct).size_bytes for one in outer) - entry) // word
    fields = {
        name: read_field(kernel, array.address, "array_cache", name)
        for name in ("avail", "limit", "batchcount")
    }
    held = min(fields["avail"], room)
    addresses = [
        int(read_pointer(kernel.machine.state, array.address + entry + i * word, word)) for i in range(held)
    ]
    rows = [Row("members", f"{fields['avail']} of {fields['limit']}, batches of {fields['batchcount']}")]
    rows += _object_members(kernel, addresses[::-1])
    return Inspection(structure_text(kernel, array.path), tuple(rows), ListTarget(array.address))


def _cpu_list(kernel: BootedKernel, structure: Located) -> Inspection:
    page = read_field(kernel, structure.address, "kmem_cache_cpu", "page")
    rows = []
    slab = _slab_of_page(kernel, page)
    cpu = int(structure.path.removeprefix("cache_cpus[").partition("]")[0])
    if slab is None:
        rows.append(Row("cpu slab", "none" if page == 0 else place_of(kernel, page, "page").text))
    else:
        rows.append(Row("cpu slab", f"slab {slab.page_frame}", SlabTarget(slab.page_frame)))
        members = cpu_freelist(kernel, slab, cpu)
        rows.append(Row("freelist", f"{len(members)} objects"))
        rows += _object_members(kernel, [object_address(slab, index) for index in members])
    if "partial" in kernel.program.struct("kmem_cache_cpu").fields:
        rows += _chain_rows(kernel, read_field(kernel, structure.address, "kmem_cache_cpu", "partial"))
    return Inspection(structure_text(kernel, structure.path), tuple(rows), ListTarget(structure.address))


def _slab_of_page(kernel: BootedKernel, page: int) -> SlabPlace | None:
    from slubviz.model.slub_lockless_view import frame_of

    frame = frame_of(kernel, page) if page else None
    return None if frame is None else slab_of_frame(kernel, frame)


def _chain_rows(kernel: BootedKernel, first: int) -> list[Row]:
    from slubviz.model.slub_lockless_view import chain_frames

    try:
        frames = [int(frame) for frame in chain_frames(kernel, first)]
    except UNREADABLE as error:
        return [Row("partial chain", f"makes no sense just now: {error}")]
    rows = [Row("partial chain", f"{len(frames)} slabs")]
    return rows + _slab_members(kernel, frames)[1:]
