"""Things in memory whose changes can be looked for: a word, a slab, a lock, a list.

Each is a set of words that may have to be found anew after a change: a list's members come and go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slubviz.hw.errors import MachineError
from slubviz.model.errors import RequestError

if TYPE_CHECKING:
    from slubviz.hw.search_engine import Words
    from slubviz.model.booted import BootedKernel

#: Of a longer list only so many members are watched.
MOST_MEMBERS = 1024
_LOW, _HIGH = 0xFFFFFFFF, ~0xFFFFFFFF

#: An 8-byte word: address, and which of its bits count.
MaskedWord = tuple[int, int]


@dataclass(frozen=True)
class WatchedWord:
    """A word of memory."""

    address: int
    size_bytes: int = 8  #: 4 or 8; the address is a multiple of it

    def text(self) -> str:
        """One phrase."""
        return f"word {self.address:#x}"


@dataclass(frozen=True)
class WatchedSlab:
    """A slab's own structures: its page structure, in SLAB also its struct slab.

    Not part of it: objects that a CPU takes from its own list, which is no change of the slab.
    """

    page_frame: int  #: of its first page

    def text(self) -> str:
        """One phrase."""
        return f"slab {self.page_frame}"


@dataclass(frozen=True)
class WatchedLock:
    """A lock: its word, and how many CPUs wait for it."""

    address: int

    def text(self) -> str:
        """One phrase."""
        return f"lock {self.address:#x}"


@dataclass(frozen=True)
class WatchedList:
    """A list: which members it has, in which order."""

    address: int  #: of its head, a list_head

    def text(self) -> str:
        """One phrase."""
        return f"list {self.address:#x}"


Watched = WatchedWord | WatchedSlab | WatchedLock | WatchedList


def masked(address: int, size_bytes: int) -> list[MaskedWord]:
    """The 8-byte words, and their bits, of some bytes of memory; address and size are multiples of 4."""
    found: dict[int, int] = {}
    for half in range(address & ~3, address + size_bytes, 4):
        found[half & ~7] = found.get(half & ~7, 0) | (_HIGH if half & 4 else _LOW)
    return list(found.items())


def watched_words(kernel: BootedKernel, watched: Watched) -> list[MaskedWord]:
    """The words whose change is a change of it, as memory is now.

    Raises
    ------
    RequestError
        If there is no memory at its address.
    """
    match watched:
        case WatchedWord(address, size_bytes):
            if size_bytes not in (4, 8) or address % size_bytes:
                raise RequestError(f"a word of {size_bytes} bytes cannot lie at {address:#x}")
            words = masked(address, size_bytes)
        case WatchedSlab(page_frame):
            words = _slab_words(kernel, page_frame)
        case WatchedLock(address):
            words = masked(address, 4 if address % 8 else 8)
        case WatchedList(address):
            words = _list_words(kernel, address)
    if not exists(kernel, words[0][0]):
        raise RequestError(f"there is no memory at {words[0][0]:#x}")
    return words


def exists(kernel: BootedKernel, address: int) -> bool:
    """Whether an address is that of memory."""
    memory, spec = kernel.machine.memory, kernel.machine.spec
    frame = address >> (spec.page_size_bytes.bit_length() - 1)
    in_pages = max(memory.first_frame, 1) <= frame < memory.first_frame + memory.page_frames
    return in_pages or memory.static_base <= address < kernel.program.static_end


def page_of(kernel: BootedKernel, frame: int) -> int:
    """Address of a page frame's page structure.

    Raises
    ------
    RequestError
        If there is no such page frame.
    """
    pages = kernel.program.globals["mem_map"]
    if not 0 <= frame < pages.count:
        raise RequestError(f"there is no page frame {frame}; there are 0 to {pages.count - 1}")
    return pages.address + frame * pages.stride_bytes


def slab_struct(kernel: BootedKernel, frame: int) -> int:
    """Address of the struct slab of a slab of SLAB, 0 if the page is no slab's or the family has none."""
    if "slab" not in kernel.program.structs:
        return 0
    page = kernel.memory.one(page_of(kernel, frame), "page")
    is_slab = int(page["flags"]) >> kernel.program.constants["PG_slab"] & 1
    address = int(page["lru"]["prev"])
    return address if is_slab and address % kernel.program.target.word_bytes == 0 else 0


def _slab_words(kernel: BootedKernel, frame: int) -> list[MaskedWord]:
    words = masked(page_of(kernel, frame), kernel.program.struct("page").size_bytes)
    management = slab_struct(kernel, frame)
    if management and exists(kernel, management):
        words += masked(management, kernel.program.struct("slab").size_bytes)
    return words


def _list_words(kernel: BootedKernel, head: int) -> list[MaskedWord]:
    """The forward link of the head and of each member; any change of the list changes one of them."""
    size = kernel.program.target.word_bytes
    words, at = [], head
    for _ in range(MOST_MEMBERS + 1):
        if at % size or not exists(kernel, at):
            break
        words += masked(at, size)
        try:
            at = kernel.machine.read(at, size)
        except MachineError:
            break
        if at == head:
            break
    return words or masked(head, size)


class WatchTracker:
    """Keeps the words of something watched up to date while a run is searched; see ``finder.Tracker``."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def begin(self, kernel: BootedKernel) -> Words:
        """Its words."""
        return [(address, mask, 0) for address, mask in watched_words(kernel, self._watched)]

    def strikes(self, kernel: BootedKernel, trigger: int, cpu: int, changed: int) -> int:
        """Every change of its words counts."""
        return trigger

    def words_now(self, kernel: BootedKernel) -> Words | None:
        """Its words, found anew."""
        return self.begin(kernel)
