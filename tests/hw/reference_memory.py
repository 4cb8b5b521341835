"""The reference machine's memory and caches: dicts and lists that follow the documented rules, slowly.

Written from the module docstrings of ``slubviz.hw.memory`` and ``slubviz.hw.caches``; shares no code or
layout with them.  There is no directory here: who holds a line is looked up in the caches themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from slubviz.hw.isa import Fault
from slubviz.hw.machine import MemoryPlan
from slubviz.hw.machine_file import CacheGeometry, MachineSpec

MASK_64 = (1 << 64) - 1
MASK_32 = (1 << 32) - 1
POLLED_SLOTS = 64
WALKS_PER_CPU = 16


def signed(value: int, bits: int = 64) -> int:
    """A number wrapped to a signed word."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class ReferenceFault(Exception):
    """A program error; carries the Fault and the address or number that belongs to it."""

    def __init__(self, fault: Fault, address: int = 0) -> None:
        super().__init__(fault.name)
        self.fault = fault
        self.address = address


class ReferenceMemory:
    """Words by granule.  A granule that was never written reads as 0."""

    def __init__(self, spec: MachineSpec, plan: MemoryPlan) -> None:
        self.page_bytes = spec.page_size_bytes
        self.page_frames = {plan.first_frame + i: int(node) for i, node in enumerate(plan.node_of_frame)}
        first_static = plan.static_base // self.page_bytes
        static_frames = -(-plan.static_bytes // self.page_bytes)
        self.granule_of = dict.fromkeys(self.page_frames, self.page_bytes)
        self.granule_of.update(dict.fromkeys(range(first_static, first_static + static_frames), 8))
        self.stored_word: dict[tuple[int, int], int] = {}  # (frame, granule number) -> which word it keeps
        self.values: dict[tuple[int, int], int] = {}  # unsigned

    def node(self, address: int) -> int:
        """Home node of an address; static memory is on node 0."""
        return self.page_frames.get(address // self.page_bytes, 0)

    def exists(self, address: int) -> bool:
        """Whether there is memory at an address."""
        return address // self.page_bytes in self.granule_of

    def cell(self, address: int, size: int, write: bool) -> tuple[int, int]:
        """The granule that stores an address, or a fault."""
        if address % size:
            raise ReferenceFault(Fault.MISALIGNED, address)
        frame, offset = divmod(address, self.page_bytes)
        if frame == 0:
            raise ReferenceFault(Fault.NULL_POINTER, address)
        if frame not in self.granule_of:
            raise ReferenceFault(Fault.BAD_ADDRESS, address)
        cell = (frame, offset // self.granule_of[frame])
        if self.stored_word.get(cell, offset // 8) != offset // 8:
            raise ReferenceFault(Fault.GRANULE, address)
        if write:
            self.stored_word[cell] = offset // 8
        return cell

    def read(self, address: int, size: int) -> int:
        """Zero-extended 4 or signed 8 bytes."""
        word = self.values.get(self.cell(address, size, False), 0)
        return signed(word) if size == 8 else (word >> 8 * (address & 4)) & MASK_32

    def write(self, address: int, size: int, value: int) -> None:
        """Store 4 or 8 bytes."""
        cell = self.cell(address, size, True)
        if size == 8:
            self.values[cell] = value & MASK_64
            return
        shift = 8 * (address & 4)
        self.values[cell] = (self.values.get(cell, 0) & ~(MASK_32 << shift)) | ((value & MASK_32) << shift)

    def set_granule(self, address: int, size: int, granule: int) -> None:
        """One word per ``granule`` bytes (a power of two at most that) from now on; old words are lost."""
        rounded = min(max(1 << max(granule, 1).bit_length() - 1, 8), self.page_bytes)
        frames = range(address // self.page_bytes, (address + size - 1) // self.page_bytes + 1)
        if any(frame not in self.page_frames for frame in frames):
            raise ReferenceFault(Fault.BAD_ADDRESS, address)
        for frame in frames:
            self.granule_of[frame] = rounded
            for table in (self.stored_word, self.values):
                for cell in [cell for cell in table if cell[0] == frame]:
                    del table[cell]


@dataclass
class Line:
    """A line in a cache; ``writable`` is of L1s and middle caches."""

    number: int
    writable: bool


@dataclass
class Cache:
    """Set-associative, most recently used first."""

    sets: list[list[Line]]
    ways: int

    def set_of(self, line: int) -> list[Line]:
        return self.sets[line % len(self.sets)]

    def find(self, line: int) -> Line | None:
        return next((entry for entry in self.set_of(line) if entry.number == line), None)

    def drop(self, line: int) -> None:
        entries = self.set_of(line)
        entries[:] = [entry for entry in entries if entry.number != line]

    def put_first(self, line: int, writable: bool) -> int | None:
        """Make a line the most recent; returns the line that had to go."""
        self.drop(line)
        entries = self.set_of(line)
        entries.insert(0, Line(line, writable))
        return entries.pop().number if len(entries) > self.ways else None


@dataclass
class Place:
    """Where a CPU is in the machine."""

    l1: int
    middle: int  # its L2 on a machine with an L3
    outer: int  # its L3, or its L2 on a machine without
    package: int
    node: int


@dataclass
class Request:
    """An access: what it is, where its line's memory is, when the CPU issues it, when it comes to the
    caches (later than that for what is in a store buffer)."""

    write: bool
    node: int
    clock: int
    reaches_cache: int


@dataclass
class Walk:
    """The accesses of a page that the stream prefetcher remembers; the last ones, without repetitions."""

    page: int
    lines: list[int]
    when: int  # the last access


@dataclass
class ReferenceCaches:
    """All caches of a machine, and what an access costs in millicycles."""

    spec: MachineSpec
    places: list[Place] = field(init=False)
    l1s: list[Cache] = field(init=False)
    middles: list[Cache] = field(init=False)  # none on a machine without an L3
    outers: list[Cache] = field(init=False)

    def __post_init__(self) -> None:
        spec = self.spec
        self.cost = {name: round(cost.value * 1000) for name, cost in spec.costs.items()}
        self.places = [self._place(cpu) for cpu in range(spec.cpus)]
        outer = spec.l3 or spec.l2
        self.l1s = [self._cache(spec.l1) for _ in {p.l1 for p in self.places}]
        self.middles = [self._cache(spec.l2) for _ in {p.middle for p in self.places}] if spec.l3 else []
        self.outers = [self._cache(outer) for _ in {p.outer for p in self.places}]
        self.modified: set[int] = set()  # lines that one outer cache holds modified
        self.pollers: Counter[int] = Counter()
        self.burst = [(0, 0)] * spec.cpus  # polled line written last, and until when it costs nothing
        self.served = [0] * POLLED_SLOTS  # until when requests for a polled line of that number are served
        self.bus_free = [0] * spec.nodes  # when
        self.walks: dict[tuple[int, int], Walk] = {}
        self.counters = [Counter[str]() for _ in range(spec.cpus)]

    def _place(self, cpu: int) -> Place:
        spec = self.spec
        outer = cpu // (spec.cpus_per_l3 if spec.l3 else spec.cpus_per_l2)
        package = outer // (spec.l3_per_package if spec.l3 else spec.l2_per_package)
        return Place(
            cpu // spec.cpus_per_l1, cpu // spec.cpus_per_l2, outer, package, cpu // spec.cpus_per_node
        )

    def _cache(self, shape: CacheGeometry) -> Cache:
        return Cache([[] for _ in range(shape.size_bytes // self.spec.line_bytes // shape.ways)], shape.ways)

    # --- the levels -------------------------------------------------------------------------
    def _l1s_where(self, suits: Callable[[Place], bool]) -> list[Cache]:
        return [self.l1s[number] for number in sorted({p.l1 for p in self.places if suits(p)})]

    def _middles_where(self, suits: Callable[[Place], bool]) -> list[Cache]:
        numbers = sorted({p.middle for p in self.places if suits(p)})
        return [self.middles[number] for number in numbers] if self.middles else []

    def _change(self, caches: list[Cache], line: int, drop: bool) -> None:
        """Drop a line from some caches, or make it read-only there."""
        for cache in caches:
            entry = cache.find(line)
            if entry is not None and drop:
                cache.drop(line)
            elif entry is not None:
                entry.writable = False

    def _change_above(self, outer: int, line: int, drop: bool) -> None:
        """In everything above an outer cache."""
        self._change(self._middles_where(lambda p: p.outer == outer), line, drop)
        self._change(self._l1s_where(lambda p: p.outer == outer), line, drop)

    def distance(self, cpu: int, other: int) -> str:
        """Which transfer brings a line from where one CPU's caches are to another's."""
        here, there = self.places[cpu], self.places[other]
        if here.middle == there.middle:
            return "transfer_same_l2"
        if here.outer == there.outer:
            return "transfer_same_l3"
        if here.package == there.package:
            return "transfer_same_package"
        return "transfer_other_package" if here.node == there.node else "transfer_other_node"

    def _take_from_others(self, cpu: int, line: int, write: bool) -> int | None:
        """Cost of the dearest answer of another outer cache; None if no cache answers."""
        own = self.places[cpu].outer
        if not write and line not in self.modified:
            return None
        holders = [n for n, cache in enumerate(self.outers) if n != own and cache.find(line)]
        for outer in holders:
            if write:
                self.outers[outer].drop(line)
            self._change_above(outer, line, drop=write)
        if not holders:
            return None
        owners = [c for c, place in enumerate(self.places) if place.outer in holders]
        kind = max((self.distance(cpu, owner) for owner in owners), key=lambda kind: self.cost[kind])
        self.counters[cpu][kind] += 1
        return self.cost[kind]

    def _take_within(self, cpu: int, line: int, write: bool, latency: int) -> int:
        """Take a line from L1s and middle caches under the same outer one, or share it; the latency then."""
        here = self.places[cpu]
        siblings = self._l1s_where(lambda p: p.middle == here.middle and p.l1 != here.l1)
        if self._in_the_way(siblings, line, write):
            latency = self.cost["transfer_same_l2"]
            self.counters[cpu]["transfer_same_l2"] += 1
            self._change(siblings, line, drop=write)
        middles = self._middles_where(lambda p: p.outer == here.outer and p.middle != here.middle)
        if self._in_the_way(middles, line, write):
            latency = max(latency, self.cost["transfer_same_l3"])
            self.counters[cpu]["transfer_same_l3"] += 1
            self._change(middles, line, drop=write)
            l1s = self._l1s_where(lambda p: p.outer == here.outer and p.middle != here.middle)
            self._change(l1s, line, drop=write)
        return latency

    def _in_the_way(self, caches: list[Cache], line: int, write: bool) -> bool:
        entries = [entry for cache in caches if (entry := cache.find(line)) is not None]
        return any(entry.writable or write for entry in entries)

    # --- prefetchers, bus, polled lines -----------------------------------------------------
    def _ahead(self, cpu: int, line: int, now: int) -> int | None:
        """How long the stream prefetcher has been waiting for this access; None if it does not expect it."""
        page = line // (self.spec.page_size_bytes // self.spec.line_bytes)
        slot = (cpu, page % WALKS_PER_CPU)
        walk = self.walks.get(slot)
        if walk is None or walk.page != page:
            self.walks[slot] = Walk(page, [line], now)
            return None
        waited = now - walk.when
        walk.when = now
        if line == walk.lines[-1]:
            return None
        walk.lines = [*walk.lines[-3:], line]
        steps = {b - a for a, b in pairwise(walk.lines)}
        regular = len(walk.lines) == 4 and len(steps) == 1
        short = abs(line - walk.lines[-2]) <= self.spec.prefetch_reach_lines
        return waited if regular and short and waited >= 0 else None

    def _bus_wait(self, node: int, clock: int, lines: int) -> int:
        """A request takes its turn on a node's bus: how long it waits."""
        begin = max(clock, self.bus_free[node])
        if not self.cost["bus_transaction"]:
            return 0
        self.bus_free[node] = begin + lines * self.cost["bus_transaction"]
        return begin - clock

    def _queue(self, cpu: int, line: int, request: Request, kept: bool) -> int:
        """What an access to a polled line adds; ``kept``: this CPU writes it and still has it in its L1."""
        transfer = self.cost["transfer_same_package"]
        added = 0
        if kept:
            last_line, until = self.burst[cpu]
            if line == last_line and request.clock <= until:
                return 0
            added = transfer + self._bus_wait(request.node, request.clock, 1)
        slot = line % POLLED_SLOTS
        begin = max(self.served[slot], request.reaches_cache)
        self.served[slot] = begin + transfer
        if request.write:
            self.served[slot] += self.pollers[line] * self.cost["spinner_reread"]
            self.burst[cpu] = (line, request.clock + transfer)
        return added + begin - request.reaches_cache

    def rush(self, line: int, waiters: int) -> None:
        """Waiters try in vain to get a lock in this line."""
        self.served[line % POLLED_SLOTS] += waiters * self.cost["spinner_retry"]

    # --- filling --------------------------------------------------------------------------------
    def _missed(self, cpu: int, line: int, request: Request, ahead: int | None) -> int:
        """Bring a line into a CPU's outer cache; the latency."""
        moved = self._bring_neighbour(cpu, line) + 1 + self._into_outer(cpu, line)
        latency = self._take_from_others(cpu, line, request.write)
        if latency is None:
            kind = "memory_local" if request.node == self.places[cpu].node else "memory_remote"
            self.counters[cpu][kind] += 1
            latency = self.cost[kind]
        if ahead is not None:
            self.counters[cpu]["prefetched"] += 1
            latency = latency * self.cost["prefetch_leftover"] // 1000
            if not request.write:
                latency = max(latency - ahead, self.cost["l3_hit" if self.middles else "l2_hit"])
        return latency + self._bus_wait(request.node, request.clock, moved)

    def _bring_neighbour(self, cpu: int, line: int) -> int:
        """The adjacent-line prefetcher; returns how many lines it moves."""
        neighbour = line + 1 if line % 2 == 0 else line - 1
        known = any(cache.find(neighbour) for cache in self.outers) or self.pollers[neighbour]
        if known or not self.spec.adjacent_line_prefetch or self.spec.page_size_bytes == self.spec.line_bytes:
            return 0
        return 1 + self._into_outer(cpu, neighbour)

    def _into_outer(self, cpu: int, line: int) -> int:
        """How many lines had to go: 0 or 1."""
        own = self.places[cpu].outer
        victim = self.outers[own].put_first(line, False)
        if victim is None:
            return 0
        self.counters[cpu]["l3_eviction" if self.middles else "l2_eviction"] += 1
        self._change_above(own, victim, drop=True)
        self.modified.discard(victim)
        return 1

    def _into_middle(self, cpu: int, line: int, writable: bool) -> None:
        own = self.places[cpu].middle
        victim = self.middles[own].put_first(line, writable)
        if victim is not None:
            self.counters[cpu]["l2_eviction"] += 1
            self._change(self._l1s_where(lambda p: p.middle == own), victim, drop=True)

    def _refreshed(self, cache: Cache, line: int) -> Line | None:
        entry = cache.find(line)
        if entry is not None:
            cache.put_first(line, entry.writable)
        return cache.find(line)

    # --- what a CPU does ----------------------------------------------------------------------
    def access(self, cpu: int, line: int, request: Request) -> tuple[int, bool]:
        """Latency of an access in millicycles, and whether it wrote a line that waiters poll."""
        place, write = self.places[cpu], request.write
        l1, outer = self.l1s[place.l1], self.outers[place.outer]
        middle = self.middles[place.middle] if self.middles else None
        entry = l1.find(line)
        if entry is not None and (entry.writable or not write):
            l1.put_first(line, entry.writable)
            return 0, False
        ahead = None
        if entry is None and self.spec.prefetch_reach_lines:
            ahead = self._ahead(cpu, line, request.reaches_cache)
        held = None if entry is not None or middle is None else self._refreshed(middle, line)
        above = entry is not None or held is not None
        latency = 0
        missed = not above and self._refreshed(outer, line) is None
        if not missed:
            if entry is None:
                hit = "l3_hit" if self.middles and held is None else "l2_hit"
                latency = self.cost[hit]
                self.counters[cpu][hit] += 1
            latency = self._take_within(cpu, line, write, latency)
            if write and line not in self.modified:
                taken = self._take_from_others(cpu, line, True)
                if taken:
                    latency += taken + self._bus_wait(request.node, request.clock, 1)
                if latency > 0 and entry is not None:
                    self.counters[cpu]["upgrade"] += 1
        else:
            latency = self._missed(cpu, line, request, ahead)
            if not write:
                self.modified.discard(line)
        if write:
            self.modified.add(line)
        polled = self.pollers[line] > 0
        if polled and (write or missed):
            latency += self._queue(cpu, line, request, write and entry is not None)
        if middle is not None and not above:
            self._into_middle(cpu, line, write and not polled)
        elif middle is not None and write:
            kept = middle.find(line)
            assert kept is not None, "the middle level includes the L1s"
            kept.writable = not polled
        l1.put_first(line, write and not polled)
        return latency, polled and write

    def start_polling(self, line: int) -> None:
        """One more waiter reads the line all the time: nobody may write it silently."""
        self.pollers[line] += 1
        for outer in range(len(self.outers)):
            self._change_above(outer, line, drop=False)

    def stop_polling(self, line: int) -> None:
        """One waiter fewer."""
        self.pollers[line] -= 1
