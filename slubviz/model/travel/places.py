"""What an address stands for, in the words of people who know the kernel: "object 3 of slab 812".

Works at any moment of a run and with any kernel file; where structures make no sense just now, less is said.
An address is looked up alone, without a look through all slabs; which list holds an object is said in
``inspector``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from slubviz.hw.errors import MachineError
from slubviz.model.booted import BootedKernel
from slubviz.model.geometry import LARGEST_ORDER
from slubviz.model.travel.structures import Located, located, read_field

#: Errors that reading through structures which make no sense can raise.
UNREADABLE = (KeyError, ValueError, IndexError, MachineError, OverflowError)


class PlaceKind(StrEnum):
    """What lies at an address."""

    NULL = "null"
    OBJECT = "object"  #: an object of a slab, or a part of it
    SLAB = "slab"  #: in the pages of a slab, but in no object
    END = "end"  #: not an address: the marker that ends the freelists of a slab
    PAGE = "page"  #: in a page that is no slab's
    STRUCTURE = "structure"  #: in a global
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SlabPlace:
    """A slab, from the page structure of its first page."""

    page_frame: int  #: of its first page
    cache: int  #: index of its cache
    cache_name: str
    first_object: int  #: address
    size_bytes: int  #: of an object
    objects: int
    structure: int  #: address of what describes it: struct page, in SLAB struct slab


@dataclass(frozen=True)
class Place:
    """What an address stands for."""

    kind: PlaceKind
    text: str
    slab: SlabPlace | None = None
    index: int = -1  #: number of the object in its slab
    offset_bytes: int = 0  #: from the beginning of the object
    structure: Located | None = None  #: the innermost structure that begins there, or contains it

    @property
    def exact(self) -> bool:
        """Whether the address is the beginning of something."""
        return self.kind not in (PlaceKind.UNKNOWN, PlaceKind.NULL) and self.offset_bytes == 0


def place_of(kernel: BootedKernel, address: int, wanted: str = "") -> Place:
    """What an address stands for.

    Parameters
    ----------
    wanted : struct that should be there, as a pointer's type says; of several structures that begin at the
        address that one is named
    """
    if address == 0:
        return Place(PlaceKind.NULL, "NULL")
    structure = _structure(kernel, address, wanted)
    if structure is not None:
        text = structure_text(kernel, structure.path)
        offset = address - structure.address
        return Place(
            PlaceKind.STRUCTURE,
            f"{text} + {offset}" if offset else text,
            offset_bytes=offset,
            structure=structure,
        )
    slab = slab_at(kernel, address)
    if slab is not None:
        return _in_slab(kernel, slab, address)
    frame = frame_of_address(kernel, address)
    if frame is not None:
        offset = address & (kernel.machine.spec.page_size_bytes - 1)
        return Place(
            PlaceKind.PAGE, f"page of pfn {frame}" + (f" + {offset}" if offset else ""), offset_bytes=offset
        )
    return Place(PlaceKind.UNKNOWN, f"{address:#x}")


def frame_of_address(kernel: BootedKernel, address: int) -> int | None:
    """Page frame of an address in page memory; None for other addresses."""
    memory = kernel.machine.memory
    frame = address >> (kernel.machine.spec.page_size_bytes.bit_length() - 1)
    first = max(memory.first_frame, 1)
    return frame if first <= frame < memory.first_frame + memory.page_frames else None


def slab_at(kernel: BootedKernel, address: int) -> SlabPlace | None:
    """The slab whose pages contain an address; None if there is none, or it makes no sense just now."""
    frame = frame_of_address(kernel, address)
    return None if frame is None else slab_of_frame(kernel, frame)


def slab_of_frame(kernel: BootedKernel, frame: int) -> SlabPlace | None:
    """The slab that a page frame belongs to; None if there is none, or it makes no sense just now."""
    try:
        return _slab_of_frame(kernel, frame)
    except UNREADABLE:
        return None


def page_address(kernel: BootedKernel, frame: int) -> int:
    """Address of a page frame's page structure."""
    pages = kernel.program.globals["mem_map"]
    return pages.address + frame * pages.stride_bytes


def frame_of_page(kernel: BootedKernel, address: int) -> int | None:
    """Page frame of the page structure that contains an address; None if there is none."""
    pages = kernel.program.globals["mem_map"]
    offset = address - pages.address
    return offset // pages.stride_bytes if 0 <= offset < pages.size_bytes else None


def page_flags_text(kernel: BootedKernel, address: int, flags: int) -> str:
    """Names of the flags that are set, and the node, if a page's flags are at an address; else ""."""
    frame = frame_of_page(kernel, address)
    offset = kernel.program.struct("page").fields["flags"].offset_bytes
    if frame is None or address != page_address(kernel, frame) + offset:
        return ""
    constants = kernel.program.constants
    names = [name for name, bit in constants.items() if re.match(r"PG_[a-z]+$", name) and flags >> bit & 1]
    return ", ".join((*names, f"node {flags >> constants['NODE_SHIFT']}"))


def cache_index(kernel: BootedKernel, address: int) -> int | None:
    """Index of the cache whose structure is at an address; None if there is none."""
    index, rest = divmod(address - kernel.cache_address(0), kernel.program.struct("kmem_cache").size_bytes)
    known = kernel.family.cache_sizes(kernel.machine.spec)
    return index if rest == 0 and index in known else None


def _slab_of_frame(kernel: BootedKernel, frame: int) -> SlabPlace | None:
    constants = kernel.program.constants
    if not 0 <= frame < kernel.program.globals["mem_map"].count:
        return None
    flags = read_field(kernel, page_address(kernel, frame), "page", "flags")
    if flags & constants["PAGE_TAIL"] == constants["PAGE_TAIL"]:
        first = frame_of_page(kernel, read_field(kernel, page_address(kernel, frame), "page", "first_page"))
        if first is None or not 0 <= frame - first < 1 << LARGEST_ORDER:
            return None
        frame = first
        flags = read_field(kernel, page_address(kernel, frame), "page", "flags")
    if not flags >> constants["PG_slab"] & 1:
        return None
    place = _slab_of_slab(kernel, frame) if kernel.family.name == "slab" else _slab_of_slub(kernel, frame)
    if place is None or place.size_bytes <= 0 or place.objects <= 0:
        return None
    most = kernel.machine.spec.page_size_bytes << LARGEST_ORDER
    return place if place.size_bytes * place.objects <= most else None


def _slab_of_slub(kernel: BootedKernel, frame: int) -> SlabPlace | None:
    page = page_address(kernel, frame)
    cache = read_field(kernel, page, "page", "slab")
    index = cache_index(kernel, cache)
    if index is None:
        return None
    if kernel.family.name == "slub_lockless":
        objects = read_field(kernel, page, "page", "slab_counters") >> 16 & 0x7FFF
    else:
        objects = read_field(kernel, cache, "kmem_cache", "objects")
    size = read_field(kernel, cache, "kmem_cache", "size")
    first = frame * kernel.machine.spec.page_size_bytes
    return SlabPlace(frame, index, kernel.cache_name(index), first, size, objects, page)


def _slab_of_slab(kernel: BootedKernel, frame: int) -> SlabPlace | None:
    lru = page_address(kernel, frame) + kernel.program.struct("page").fields["lru"].offset_bytes
    cache = read_field(kernel, lru, "list_head", "next")
    structure = read_field(kernel, lru, "list_head", "prev")
    index = cache_index(kernel, cache)
    if index is None:
        return None
    first = read_field(kernel, structure, "slab", "s_mem")
    size = read_field(kernel, cache, "kmem_cache", "buffer_size")
    objects = read_field(kernel, cache, "kmem_cache", "num")
    return SlabPlace(frame, index, kernel.cache_name(index), first, size, objects, structure)


def _in_slab(kernel: BootedKernel, slab: SlabPlace, address: int) -> Place:
    if address & 1 and _is_end(kernel, slab, address):
        return Place(PlaceKind.END, f"end of the freelists of slab {slab.page_frame}", slab)
    index, offset = divmod(address - slab.first_object, slab.size_bytes)
    if 0 <= index < slab.objects:
        text = f"object {index} of slab {slab.page_frame}" + (f" + {offset}" if offset else "")
        return Place(PlaceKind.OBJECT, text, slab, index, offset)
    if address == slab.structure:
        return Place(PlaceKind.SLAB, f"slab {slab.page_frame}", slab)
    offset = address - slab.page_frame * kernel.machine.spec.page_size_bytes
    return Place(PlaceKind.SLAB, f"slab {slab.page_frame} + {offset}", slab, offset_bytes=offset)


def _is_end(kernel: BootedKernel, slab: SlabPlace, address: int) -> bool:
    try:
        return read_field(kernel, slab.structure, "page", "end") == address
    except UNREADABLE:
        return False


def _structure(kernel: BootedKernel, address: int, wanted: str) -> Located | None:
    found = located(kernel.program, address)
    begin = [one for one in found if one.address == address and one.struct]
    for one in reversed(begin):
        if one.struct == wanted:
            return one
    for one in reversed(begin):
        if one.struct != "list_head":
            return one
    return begin[-1] if begin else (found[-1] if found else None)


#: Path of a structure -> what people call it; {cache} is the name of the cache with the number of group c.
_NAMES = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"mem_map\[(?P<n>\d+)\]", "page of pfn {n}"),
        (r"kmalloc_caches\.cache\[(?P<c>\d+)\]\.local_node", "{cache} node 0"),
        (r"kmalloc_caches(\.cache)?\[(?P<c>\d+)\]", "{cache}"),
        (r"cache_cpus\[(?P<n>\d+)\]\.slot\[(?P<c>\d+)\]", "{cache} cpu slab of CPU {n}"),
        (r"cache_nodes\[(?P<n>\d+)\]\[(?P<c>\d+)\]", "{cache} node {n}"),
        (r"cpu_arrays\[(?P<n>\d+)\]\[(?P<c>\d+)\](\.cache)?", "{cache} array of CPU {n}"),
        (r"shared_arrays\[(?P<n>\d+)\]\[(?P<c>\d+)\](\.cache)?", "{cache} shared array of node {n}"),
        (
            r"alien_caches\[(?P<n>\d+)\]\[(?P<c>\d+)\]\.of\[(?P<m>\d+)\](\.cache)?",
            "{cache} alien cache of node {n} for node {m}",
        ),
        (r"cache_list3\[(?P<n>\d+)\]\[(?P<c>\d+)\]", "{cache} lists of node {n}"),
        (r"zones\[(?P<n>\d+)\]", "zone of node {n}"),
    )
)


def structure_text(kernel: BootedKernel, path: str) -> str:
    """What people call the structure or field at a path of ``located``; else the path."""
    for pattern, name in _NAMES:
        match = pattern.match(path)
        if match is None:
            continue
        groups = match.groupdict()
        text = name.format(cache=_cache_name(kernel, groups.get("c")), **groups)
        field = path[match.end() :].removeprefix(".")
        return f"{field} of {text.removeprefix('page of ')}" if field else text
    return _per_text(kernel, path)


def _per_text(kernel: BootedKernel, path: str) -> str:
    """Of a variable that each CPU or node has one of, with whose it is."""
    match = re.match(r"(\w+)\[(\d+)\]\.?", path)
    variable = kernel.program.globals.get(match[1]) if match else None
    if match is None or variable is None or not variable.per:
        return path
    owner = "CPU" if variable.per == "cpu" else "node"
    field = path[match.end() :]
    return f"{match[1]}{'.' + field if field else ''} of {owner} {match[2]}"


def _cache_name(kernel: BootedKernel, number: str | None) -> str:
    if number is None:
        return ""
    index = int(number)
    known = index in kernel.family.cache_sizes(kernel.machine.spec)
    return kernel.cache_name(index) if known else f"cache {index}"
