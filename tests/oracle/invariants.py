"""What must hold in a `Slub` between operations.

Every function raises AssertionError with a message that names the slab, CPU or counter.  The
counter identities are counted per cache, so that no cache can hide behind another's error.
"""

from __future__ import annotations

from .slub import Cache, Slab, Slub


def check_slub(slub: Slub) -> None:
    """Check objects, slabs, lists, counters and pages of all caches."""
    for cache in slub.caches.values():
        for slab in cache.slabs.values():
            check_slab(cache, slab)
        check_cpu_slabs(cache)
        check_nodes(cache)
        check_counters(cache)
    check_numbering(slub)
    check_pages(slub)


def check_slab(cache: Cache, slab: Slab) -> None:
    """Each object in exactly one place; inuse; frozen; on its node's partial list exactly when it must be."""
    name = f"{cache.size_bytes}-byte slab {slab.number}"
    owners = [cpu for cpu, c in enumerate(cache.cpu_slabs) if c.slab is slab]
    assert len(owners) <= 1, f"{name} is the cpu slab of cpus {owners}"
    on_cpu = cache.cpu_slabs[owners[0]].freelist if owners else []
    places = [*slab.freelist, *on_cpu, *slab.allocated]
    twice = (
        {index for index in places if places.count(index) > 1} if len(places) != len(set(places)) else set()
    )
    assert not twice, f"{name}: objects {sorted(twice)} are in two places"
    lost = set(range(cache.objects)) - set(places)
    assert not lost, f"{name}: objects {sorted(lost)} are lost"
    assert len(places) == cache.objects, f"{name}: {len(places)} objects instead of {cache.objects}"
    free = len(slab.freelist)
    assert slab.inuse == cache.objects - free, f"{name}: inuse {slab.inuse}, {free} free of {cache.objects}"
    assert slab.frozen == bool(owners), f"{name}: frozen is {slab.frozen}, cpu slab of {owners}"
    listed = sum(other is slab for node in cache.nodes for other in node.partial)
    must_be_listed = bool(slab.freelist) and not slab.frozen
    assert listed == must_be_listed, f"{name}: {listed} times on partial lists, must be {int(must_be_listed)}"
    if listed:
        assert any(other is slab for other in cache.nodes[slab.node].partial), (
            f"{name}: on another node's list"
        )


def check_cpu_slabs(cache: Cache) -> None:
    """A CPU without slab has no objects; a cpu slab is live and its node is known to the CPU."""
    for cpu, c in enumerate(cache.cpu_slabs):
        name = f"cpu {cpu}, {cache.size_bytes} bytes"
        if c.slab is None:
            assert not c.freelist, f"{name}: objects {c.freelist} without a cpu slab"
        else:
            assert cache.slabs.get(c.slab.number) is c.slab, f"{name}: cpu slab {c.slab.number} is gone"
            assert c.node == c.slab.node, f"{name}: node {c.node}, slab on node {c.slab.node}"


def check_nodes(cache: Cache) -> None:
    """nr_partial and nr_slabs; listed slabs are live."""
    for number, node in enumerate(cache.nodes):
        name = f"node {number}, {cache.size_bytes} bytes"
        assert node.nr_partial == len(node.partial), (
            f"{name}: nr_partial {node.nr_partial}, {len(node.partial)} listed"
        )
        live = sum(slab.node == number for slab in cache.slabs.values())
        assert node.nr_slabs == live, f"{name}: nr_slabs {node.nr_slabs}, {live} live"
        for slab in node.partial:
            assert cache.slabs.get(slab.number) is slab, f"{name}: slab {slab.number} is listed but gone"


def check_counters(cache: Cache) -> None:
    """Identities that tie the counters to one another and to the state."""
    n = cache.counters
    for name, value in n.items():
        assert value >= 0, f"{name} is {value}"
    partial = sum(node.nr_partial for node in cache.nodes)
    cpu_slabs = sum(c.slab is not None for c in cache.cpu_slabs)
    allocated = sum(len(slab.allocated) for slab in cache.slabs.values())
    deactivations = (
        n["DEACTIVATE_FULL"] + n["DEACTIVATE_EMPTY"] + n["DEACTIVATE_TO_HEAD"] + n["DEACTIVATE_TO_TAIL"]
    )
    listings = (
        n["FREE_ADD_PARTIAL"] + n["DEACTIVATE_TO_HEAD"] + n["DEACTIVATE_TO_TAIL"] + n["deactivate_empty_kept"]
    )
    unlistings = n["ALLOC_FROM_PARTIAL"] + n["FREE_REMOVE_PARTIAL"]
    identities = {
        "objects in use": (
            n["ALLOC_FASTPATH"] + n["ALLOC_SLOWPATH"] - n["FREE_FASTPATH"] - n["FREE_SLOWPATH"],
            allocated,
        ),
        "slow allocations": (
            n["ALLOC_REFILL"] + n["ALLOC_FROM_PARTIAL"] + n["ALLOC_SLAB"],
            n["ALLOC_SLOWPATH"] + n["alloc_retried"],
        ),
        "live slabs": (n["ALLOC_SLAB"] - n["new_slab_dropped"] - n["FREE_SLAB"], len(cache.slabs)),
        "cpu slabs": (
            n["ALLOC_FROM_PARTIAL"] + n["ALLOC_SLAB"] - n["new_slab_dropped"] - deactivations,
            cpu_slabs,
        ),
        "partial slabs": (listings - unlistings, partial),
        "list_lock": (n["list_lock"], listings + unlistings),
        "slab_lock": (
            n["slab_lock"],
            n["FREE_SLOWPATH"] + n["ALLOC_SLOWPATH"] + deactivations,
        ),
    }
    for what, (counted, found) in identities.items():
        assert counted == found, (
            f"{cache.size_bytes} bytes, {what}: {counted} by the counters, {found} in the state"
        )


def check_numbering(slub: Slub) -> None:
    """Object ids and addresses of all live slabs agree."""
    live = {number: slab for cache in slub.caches.values() for number, slab in cache.slabs.items()}
    assert slub.first_object.keys() == live.keys(), "first objects are not those of the live slabs"
    assert len(slub.objects) == sum(slab.cache.objects for slab in live.values()), (
        "ids of objects of no live slab"
    )
    for number, slab in live.items():
        first = slub.first_object[number]
        for index in range(slab.cache.objects):
            assert slub.objects[first + index] == (slab, index), f"object {first + index} is misplaced"


def check_pages(slub: Slub) -> None:
    """Pages in use are those of live slabs and large objects, of the right order and node."""
    slub.pages.check()
    n = slub.page_counters
    in_use = slub.pages.in_use
    live = [slab for cache in slub.caches.values() for slab in cache.slabs.values()]
    slab_frames = {slab.frame for slab in live}
    large_frames = {frame for _, frame in slub.large.values()}
    assert not large_frames & slab_frames, "a block of pages is a slab and a large object"
    assert in_use.keys() == large_frames | slab_frames, (
        "pages in use are not those of slabs and large objects"
    )
    for slab in live:
        wanted = (slab.cache.order, slab.node)
        assert in_use[slab.frame] == wanted, f"slab {slab.number}: pages {in_use[slab.frame]}, not {wanted}"
    assert n["page_alloc"] - n["page_free"] == len(in_use), "page_alloc, page_free and pages in use differ"
    assert n["large_alloc"] - n["large_free"] == len(slub.large), "large_alloc, large_free and objects differ"
