"""A machine with SLAB and the oracle beside it: do the same to both, compare everything."""

from __future__ import annotations

from dataclasses import dataclass, field

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.invariants import check
from slubviz.model.slab_view import ArrayView
from tests.model.slab_driver import COUNTERS, SlabAt, SlabDriver, small_machine
from tests.oracle.slab import REAP_TICKS, Array, Cache, Object, Slab24

_LISTS = {"slabs_partial": "partial", "slabs_full": "full", "slabs_free": "free"}


@dataclass
class SlabPair:
    """A machine and the oracle, doing the same."""

    driver: SlabDriver
    oracle: Slab24
    #: address, the oracle's object
    live: list[tuple[int, Object]] = field(default_factory=list)
    #: page frame -> the oracle's number of the slab there
    number_of: dict[int, int] = field(default_factory=dict)
    at: dict[int, SlabAt] = field(default_factory=dict)

    # --- operations ---------------------------------------------------------------------------------

    def alloc(self, cpu: int, size: int, node: int | None = None) -> None:
        """Both sides allocate: it must be the same slot of the same slab."""
        address, known = self.driver.alloc(cpu, size, node), self.oracle.alloc(cpu, size, node)
        self.match_slabs()
        self.note(address, known)

    def note(self, address: int, known: Object) -> None:
        """Both sides have handed out an object."""
        assert self.name(address) == known
        self.live.append((address, known))

    def free(self, cpu: int, pick: int) -> None:
        """Both sides free one of the live objects."""
        address, known = self.live.pop(pick % len(self.live))
        self.driver.free(cpu, address)
        self.oracle.free(cpu, known)
        self.match_slabs()

    def reap(self, cpu: int, ticks: int = 0) -> None:
        """Time goes on, then a CPU reaps."""
        self.driver.run(cpu, "timer_tick", ticks)
        self.driver.run(cpu, "cache_reap", cpu)
        self.oracle.jiffies += ticks
        self.oracle.reap(cpu)
        self.match_slabs()

    # --- names ----------------------------------------------------------------------------------------

    def match_slabs(self) -> None:
        """Find out which slab of the machine is which of the oracle; one operation makes at most one a
        cache."""
        if self.oracle.slabs.keys() == set(self.number_of.values()):
            return
        now = {frame: slab for size in self.oracle.caches for frame, slab in self.driver.slabs(size).items()}
        gone = [f for f, n in self.number_of.items() if n not in self.oracle.slabs]
        for frame in gone:
            del self.number_of[frame]
        assert set(self.number_of) <= set(now)
        new = [now[frame] for frame in now if frame not in self.number_of]
        known = set(self.number_of.values())
        numbers = [number for number in self.oracle.slabs if number not in known]
        assert sorted(slab.size for slab in new) == sorted(self.oracle.slabs[n][1].size for n in numbers)
        for slab in new:
            (number,) = [n for n in numbers if self.oracle.slabs[n][1].size == slab.size]
            self.number_of[slab.frame] = number
        self.at = now

    def name(self, address: int) -> Object:
        """The oracle's name of an object."""
        shift = self.driver.spec.page_size_bytes.bit_length() - 1
        frame = address >> shift
        while frame not in self.at:  # a later page of a slab of several
            frame -= 1
        slab = self.at[frame]
        index, rest = divmod(address - slab.first_object, slab.size)
        assert rest == 0
        return Object(self.number_of[frame], index)

    # --- comparison -------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Every array, chain and list in its order, every counter, every invariant."""
        assert check(self.driver.kernel, expected_allocated=len(self.live)) == []
        assert len({address for address, _ in self.live}) == len(self.live)
        expected = self.oracle.counters
        assert self.driver.counters() == {name: expected[name] for name in COUNTERS}
        for cache in self.oracle.caches.values():
            self._compare_cache(cache)

    def _compare_cache(self, cache: Cache) -> None:
        driver = self.driver
        view = driver.view(cache.size)
        arrays = {array.name: array for array in view.arrays}
        for cpu, array in enumerate(cache.cpus):
            self._compare_array(arrays.pop(f"CPU {cpu}"), array)
        for node, lists in enumerate(cache.nodes):
            if lists.shared is not None:
                self._compare_array(arrays.pop(f"shared array of node {node}"), lists.shared)
            for other, alien in lists.alien.items():
                self._compare_array(arrays.pop(f"alien cache of node {node} for node {other}"), alien)
            listed = driver.listed(cache.size, node)
            for name, attribute in _LISTS.items():
                numbers = [self.number_of[frame] for frame in listed[name]]
                assert numbers == [slab.number for slab in getattr(lists, attribute)]
            record = driver.lists(cache.size, node)
            assert int(record["free_objects"]) == lists.free_objects
            assert int(record["colour_next"]) == lists.colour_next
            assert bool(record["free_touched"]) == lists.free_touched
            assert int(record["free_limit"]) == lists.free_limit
        assert not arrays
        record = driver.cache(cache.size)
        in_front = 0 if cache.management_bytes else int(record["slab_size"])
        for i, frame in enumerate(view.table.page_frame.tolist()):
            slab, of = self.oracle.slabs[self.number_of[frame]]
            assert of is cache
            assert driver.chain(int(view.slab_address[i])) == slab.chain
            assert view.colouroff[i] == slab.colour * int(record["colour_off"]) + in_front
            if slab.management is not None:
                assert self.name(int(view.slab_address[i])) == slab.management

    def _compare_array(self, machine: ArrayView, oracle: Array) -> None:
        assert [self.name(int(address)) for address in machine.entries] == oracle.entries
        header = self.driver.memory.one(machine.address, "array_cache")
        assert int(header["limit"]) == oracle.limit
        assert bool(header["touched"]) == oracle.touched


def pair(
    cpus: int = 3, nodes: int = 1, *, alien_caches: bool = True, machine: MachineSpec | None = None
) -> SlabPair:
    """A machine just booted and an oracle of its shape."""
    used = machine or small_machine(cpus, nodes)
    made = SlabPair(
        SlabDriver(used, USE_ALIEN_CACHES=int(alien_caches)),
        Slab24(used.page_size_bytes, used.cpus, used.nodes, alien_caches=alien_caches),
    )
    for cache in made.oracle.caches.values():
        for node, lists in enumerate(cache.nodes):
            lists.next_reap = REAP_TICKS + cache.size % 7  # not all at once
            made.driver.lists(cache.size, node)["next_reap"] = lists.next_reap
    return made
