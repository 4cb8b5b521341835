"""Damage in the structures of lockless SLUB is found, each kind by its own complaint."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slubviz.model.booted import link
from slubviz.model.invariants import check
from slubviz.model.slub_view import cpu_slabs
from tests.model.lockless import SMALL_SLABS, LocklessDriver

SIZE = 1024


class Scene:
    """CPU 0 has a slab and a chain of two, CPU 1 a slab, node 0 a list of two; one slab is full."""

    def __init__(self) -> None:
        self.driver = driver = LocklessDriver("slub-cpu-partial", 3, CONFIG_PREEMPT=1, **SMALL_SLABS)
        objects = [driver.alloc(1, SIZE) for _ in range(22)]
        for first in (0, 4):
            driver.free(2, objects[first])
        driver.flush(2, SIZE)
        for first in (8, 12):
            driver.free(0, objects[first])
        driver.alloc(0, SIZE)  # takes the one that was put on the chain last
        driver.free(0, objects[16])
        self.objects = objects
        self.allocated = 22 - 5 + 1
        assert check(driver.kernel, expected_allocated=self.allocated) == []

    @property
    def pages(self) -> np.ndarray:
        return self.driver.memory.global_structs("mem_map")

    def chain(self) -> list[int]:
        return [int(frame) for frame in self.driver.view(SIZE).chains[0]]

    def listed(self) -> list[int]:
        return [int(frame) for frame in self.driver.view(SIZE).partial_pages[0]]

    def node(self):  # type: ignore[no-untyped-def]
        address = self.driver.memory.global_address("cache_nodes", 0)
        size = self.driver.program.struct("kmem_cache_node").size_bytes
        return self.driver.memory.one(address + self.driver.index(SIZE) * size, "kmem_cache_node")

    def cpu(self, number: int):  # type: ignore[no-untyped-def]
        return cpu_slabs(self.driver.kernel, self.driver.index(SIZE))[number]


def thaw_the_cpu_slab(scene: Scene) -> None:
    scene.pages["slab_counters"][scene.objects[21] >> 12] &= 0x7FFFFFFF


def thaw_a_slab_of_the_chain(scene: Scene) -> None:
    scene.pages["slab_counters"][scene.chain()[0]] &= 0x7FFFFFFF


def freeze_a_listed_slab(scene: Scene) -> None:
    scene.pages["slab_counters"][scene.listed()[0]] |= 1 << 31


def count_one_more_in_use(scene: Scene) -> None:
    scene.pages["slab_counters"][scene.listed()[0]] += 1


def claim_more_objects_than_fit(scene: Scene) -> None:
    scene.pages["slab_counters"][scene.listed()[0]] += 1 << 16


def lose_a_freelist(scene: Scene) -> None:
    scene.pages["freelist"][scene.listed()[0]] = 0


def lead_a_freelist_astray(scene: Scene) -> None:
    scene.pages["freelist"][scene.listed()[0]] = scene.objects[21]


def share_an_object_between_lists(scene: Scene) -> None:
    scene.pages["freelist"][scene.objects[21] >> 12] = int(scene.cpu(1)["freelist"])


def take_a_slab_off_the_list(scene: Scene) -> None:
    field = scene.driver.memory.field_address
    page = scene.driver.page_address(scene.listed()[0])
    node = scene.driver.memory.global_address("cache_nodes", 0)
    size = scene.driver.program.struct("kmem_cache_node").size_bytes
    head = field(node + scene.driver.index(SIZE) * size, "kmem_cache_node", "partial")
    link(scene.driver.memory, head, [field(page, "page", "lru")])


def count_a_listed_slab_twice(scene: Scene) -> None:
    scene.node()["nr_partial"] += 1


def miscount_the_slabs(scene: Scene) -> None:
    scene.node()["nr_slabs"] -= 1


def miscount_the_objects(scene: Scene) -> None:
    scene.node()["total_objects"] += 4


def drop_the_chain(scene: Scene) -> None:
    scene.cpu(0)["partial"] = 0


def put_the_chain_on_two_cpus(scene: Scene) -> None:
    scene.cpu(2)["partial"] = scene.cpu(0)["partial"]


def tie_the_chain_into_a_ring(scene: Scene) -> None:
    first, last = scene.chain()[0], scene.chain()[-1]
    scene.pages["chain"]["next"][last] = scene.driver.page_address(first)


def lead_the_chain_astray(scene: Scene) -> None:
    scene.pages["chain"]["next"][scene.chain()[-1]] = 12345


def chain_a_page_that_is_no_slab(scene: Scene) -> None:
    scene.pages["chain"]["next"][scene.chain()[-1]] = scene.driver.page_address(1024)
    scene.pages["chain"]["next"][1024] = 0


def chain_the_cpu_slab(scene: Scene) -> None:
    scene.pages["chain"]["next"][scene.chain()[-1]] = scene.cpu(1)["page"]
    scene.pages["chain"]["next"][scene.objects[21] >> 12] = 0


def chain_a_listed_slab(scene: Scene) -> None:
    """The links lie in the same place, so that the chain goes on along the list."""
    scene.cpu(2)["partial"] = scene.driver.page_address(scene.listed()[-1])


def miscount_the_pages_of_a_chain(scene: Scene) -> None:
    scene.pages["chain"]["pages"][scene.chain()[0]] += 1


def promise_more_than_a_chain_has(scene: Scene) -> None:
    scene.pages["chain"]["pobjects"][scene.chain()[0]] += 1


def promise_nothing(scene: Scene) -> None:
    scene.pages["chain"]["pobjects"][scene.chain()[-1]] = 0


def keep_a_freelist_without_a_slab(scene: Scene) -> None:
    scene.cpu(2)["freelist"] = scene.objects[0]


def share_a_cpu_slab(scene: Scene) -> None:
    scene.cpu(2)["page"] = scene.cpu(1)["page"]


def own_a_page_that_is_no_slab(scene: Scene) -> None:
    scene.cpu(2)["page"] = scene.driver.page_address(1024)


def use_anothers_transaction_id(scene: Scene) -> None:
    scene.cpu(1)["tid"] += 1


def hold_a_reference(scene: Scene) -> None:
    scene.pages["_count"][scene.listed()[0]] = 2


def leave_a_bit_lock(scene: Scene) -> None:
    scene.pages["flags"][scene.listed()[0]] |= 1


DAMAGE: dict[Callable[[Scene], None], str] = {
    thaw_the_cpu_slab: "is with a CPU but not frozen",
    thaw_a_slab_of_the_chain: "is with a CPU but not frozen",
    freeze_a_listed_slab: "is frozen but no CPU has it",
    count_one_more_in_use: "has a use count that does not match the length of its freelist",
    claim_more_objects_than_fit: "a slab has more objects of 1024 bytes than fit into its pages",
    lose_a_freelist: "has a use count that does not match the length of its freelist",
    lead_a_freelist_astray: "has a freelist that leads out of the slab or is misaligned",
    share_an_object_between_lists: "has a cpu freelist that holds an object twice, or one that another list",
    take_a_slab_off_the_list: "has free objects but is nowhere",
    count_a_listed_slab_twice: "nr_partial of node 0 is 3, there are 2",
    miscount_the_slabs: "nr_slabs of node 0 is 5, there are 6",
    miscount_the_objects: "total_objects of node 0 is 28, there are 24",
    drop_the_chain: "is frozen but no CPU has it",
    put_the_chain_on_two_cpus: "is on two chains, or twice on the partial chain of CPU 2",
    tie_the_chain_into_a_ring: "the partial chain of CPU 0 is broken: it never ends",
    lead_the_chain_astray: "the partial chain of CPU 0 is broken: it leads to something that is no page",
    chain_a_page_that_is_no_slab: "page 1024 on the partial chain of CPU 0 is no slab of this cache",
    chain_the_cpu_slab: "is a cpu slab and on a CPU's partial chain",
    chain_a_listed_slab: "the partial chain of CPU 2 is broken: it leads to something that is no page",
    miscount_the_pages_of_a_chain: "counts 3 slabs from page",
    promise_more_than_a_chain_has: "counts 2 free objects for page",
    promise_nothing: "counts 0 free objects for page",
    keep_a_freelist_without_a_slab: "CPU 2 has a freelist without a slab",
    share_a_cpu_slab: "CPU 2 has the same cpu slab as CPU 1",
    own_a_page_that_is_no_slab: "that is no slab of this cache",
    use_anothers_transaction_id: "which is not one of its own",
    hold_a_reference: "has a page reference count that is not 1",
    leave_a_bit_lock: "is locked",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_is_found(damage: Callable[[Scene], None]) -> None:
    scene = Scene()
    damage(scene)
    problems = check(scene.driver.kernel)
    assert any(problem.startswith("kmalloc-1024: ") and DAMAGE[damage] in problem for problem in problems), (
        problems
    )


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_snapshot_of_damaged_structures_can_be_taken(damage: Callable[[Scene], None]) -> None:
    scene = Scene()
    damage(scene)
    assert scene.driver.session.snapshot().total_slabs >= 0
