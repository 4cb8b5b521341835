"""Watch expressions give what lies in memory, and say in one line why they cannot."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.model.errors import UserError
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.travel.call_stack import call_stack
from slubviz.model.travel.watch import WatchItem, WatchValue, evaluate, watch, word_of
from slubviz.model.travel.watch_grammar import Call, Element, Member, Name, Number, Word, read_watch


def session_of(kernel: str = "slub", machine: str = "e5345_8p", position: int = 60_000) -> Session:
    session = Session(SessionSpec(machine, kernel, "E", (64,), ops=2000, seed=1))
    session.boot()
    session.run(position)
    return session


@pytest.fixture(scope="module")
def slub() -> Session:
    return session_of()


def value(session: Session, text: str, cpu: int = 0) -> int | None:
    found = evaluate(session, WatchItem.parse(text), cpu)
    assert not found.error, found.error
    return found.value


def error(session: Session, text: str, cpu: int = 0) -> str:
    (found,) = watch(session, [text], cpu)
    assert (found.value, found.text) == (None, "")
    assert found.error
    assert "\n" not in found.error
    return found.error


def test_the_grammar_gives_trees():
    assert read_watch("a") == Name("a")
    assert read_watch(" 0x1F ") == Number(31)
    assert read_watch("-3") == Number(-3)
    assert read_watch("a.b[2].c") == Member(Element(Member(Name("a"), "b"), Number(2)), "c")
    assert read_watch("f(kmalloc-64, g(1)).x") == Member(
        Call("f", (Name("kmalloc-64"), Call("g", (Number(1),)))), "x"
    )
    assert read_watch("0x40:4") == Word(Number(64), 4)
    assert read_watch("(a.b):8") == Word(Member(Name("a"), "b"), 8)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing is written"),
        ("(((", "a name or a number is expected where the end is"),
        ("a.", "the name of a field is expected where the end is"),
        ("a[1", "']' is expected where the end is"),
        ("f(1,", "a name or a number is expected where the end is"),
        ("a b", "the end is expected where 'b' is"),
        ("a:2", "4 or 8 (bytes) is expected where '2' is"),
        ("a = 1", "unexpected '='"),
        ("__import__('os')", 'unexpected "\'"'),
        ("a" * 301, "longer than 300 characters"),
        ("(" * 60 + "1" + ")" * 60, "nested too deeply"),
        ("- a", "a number is expected where 'a' is"),
    ],
)
def test_what_is_no_expression_says_where(text, says):
    with pytest.raises(UserError) as caught:
        WatchItem.parse(text)
    assert says in str(caught.value)


def test_globals_fields_and_elements(slub):
    kernel, machine = slub.booted, slub.machine
    cache = kernel.cache_address(6)
    size = kernel.program.struct("kmem_cache").fields["size"].offset_bytes
    for text in ("kmem_cache(kmalloc-64).size", "kmalloc_caches.cache[6].size", "kmem_cache(6).size"):
        assert value(slub, text) == machine.read(cache + size, 4) == 64
        assert word_of(slub, text) == (cache + size, 4)
    assert value(slub, "size_index[3]") == 5
    assert value(slub, f"{cache + size:#x}:4") == 64
    assert word_of(slub, f"{cache:#x}") == (cache, 8)
    cpus = kernel.memory.global_address("cache_cpus", 3)
    offset = 6 * kernel.program.struct("kmem_cache_cpu").size_bytes
    assert word_of(slub, "kmem_cache_cpu(kmalloc-64, 3).freelist") == (cpus + offset, 8)
    assert word_of(slub, "per_cpu(cache_cpus, 3).slot[6].freelist") == (cpus + offset, 8)
    assert word_of(slub, "this_cpu(cache_cpus).slot[6].freelist", cpu=3) == (cpus + offset, 8)
    zone = kernel.memory.global_address("zones", 0)
    assert word_of(slub, "zone(0).lock") == word_of(slub, "per_node(zones, 0).lock")
    assert word_of(slub, "zone(0).lock")[0] == kernel.memory.field_address(zone, "zone", "lock")


def test_pointers_are_followed(slub):
    page = value(slub, "kmem_cache_cpu(kmalloc-64, 3).page")
    pages = slub.booted.program.globals["mem_map"]
    frame, rest = divmod(page - pages.address, pages.stride_bytes)
    assert rest == 0
    inuse = value(slub, f"page({frame}).inuse")
    assert inuse == value(slub, "kmem_cache_cpu(kmalloc-64, 3).page.inuse")
    assert inuse == value(slub, f"cast(page, {page:#x}).inuse")
    assert inuse == value(slub, f"mem_map[{frame}].inuse")
    assert value(slub, f"page({frame}).slab.size") == 64
    first = value(slub, "kmem_cache_cpu(kmalloc-64, 3).freelist")
    found = evaluate(slub, WatchItem.parse("kmem_cache_cpu(kmalloc-64, 3).freelist"))
    index = (first - frame * 4096) // 64
    assert found.text == f"object {index} of slab {frame}"
    assert value(slub, f"object({frame}, {index})") == first
    assert value(slub, f"object({frame}, {index}).next") == slub.machine.read(first)
    assert evaluate(slub, WatchItem.parse(f"page({frame}).flags")).text.endswith(
        "(PG_active, PG_slab, node 0)"
    )


def test_a_whole_struct_shows_its_fields(slub):
    found = evaluate(slub, WatchItem.parse("kmem_cache_node(kmalloc-64, 0)"))
    assert found.value is None
    assert found.text == "{list_lock 0, nr_partial 0, nr_slabs 4}"
    assert evaluate(slub, WatchItem.parse("size_index")).text == "{3, 4, 5, 5, 6, 6, 6, 6, …}"


def test_counters_constants_and_cpus(slub):
    names = slub.counter_names()
    counters = slub.machine.counters()
    column = names.index("ALLOC_FASTPATH")
    assert value(slub, "ALLOC_FASTPATH") == counters[:, column].sum() > 0
    for cpu in (0, 2):
        assert value(slub, f"counter(ALLOC_FASTPATH, {cpu})") == counters[cpu, column]
        assert value(slub, f"cpu({cpu}).clock") == slub.machine.cpu_word(cpu, L.C_CLOCK) // 1000
        assert value(slub, f"cpu({cpu}).micro_ops") == slub.machine.cpu_word(cpu, L.C_MICRO_OPS)
    assert value(slub, "PAGE_SIZE") == 4096
    assert value(slub, "MIN_PARTIAL") == 2
    assert evaluate(slub, WatchItem.parse("cpu(2).irq")).text in ("on", "off")


@pytest.mark.parametrize("kernel", ["slub", "slab", "slub-cpu-partial"])
def test_local_variables_are_those_of_the_call_stack(kernel):
    session = session_of(kernel)
    seen = 0
    for cpu in range(8):
        functions: dict[str, dict[str, int]] = {}
        for frame in call_stack(session, cpu).frames:  # inner ones replace outer ones
            functions[frame.function] = {v.name: v.value for v in frame.variables}
        for function, variables in functions.items():
            for name, expected in variables.items():
                assert value(session, f"{function}.{name}", cpu) == expected
                seen += 1
    assert seen > 20
    with pytest.raises(UserError, match="this is no word in memory"):
        word_of(session, "test_pairs.size")


def test_the_structures_of_slab_and_lockless_slub():
    slab = session_of("slab", "ia64_8p_4n")
    array = slab.booted.memory.global_address("cpu_arrays", 5)
    step = slab.booted.program.struct("cpu_array").size_bytes
    index = next(i for i, size in slab.job.family.cache_sizes(slab.machine_spec).items() if size == 64)
    assert word_of(slab, "array_cache(size-64, 5).avail") == (array + index * step, 4)
    node = (
        slab.booted.memory.global_address("cache_list3", 3)
        + index * slab.booted.program.struct("kmem_list3").size_bytes
    )
    assert word_of(slab, "kmem_list3(size-64, 3).free_objects") == (
        slab.booted.memory.field_address(node, "kmem_list3", "free_objects"),
        8,
    )
    assert "this kernel has no kmem_cache_cpu" in error(slab, "kmem_cache_cpu(size-64, 0)")
    lockless = session_of("slub-cpu-partial")
    base = lockless.booted.memory.global_address("cache_cpus", 2)
    size = lockless.booted.program.struct("kmem_cache_cpu").size_bytes
    address = lockless.booted.memory.field_address(base + 6 * size, "kmem_cache_cpu", "tid")
    assert word_of(lockless, "kmem_cache_cpu(kmalloc-64, 2).tid") == (address, 8)


def test_changes_since_the_last_look():
    session = session_of(position=1000)
    texts = ["ALLOC_FASTPATH", "PAGE_SIZE", "kmalloc.nothing", "("]
    first = watch(session, texts)
    assert [v.changed for v in first] == [False] * 4
    assert [v.changed for v in watch(session, texts, before=first)] == [False] * 4
    session.run(60_000)
    later = watch(session, texts, before=first)
    assert [v.changed for v in later] == [True, False, False, False]
    assert [v.item for v in later] == texts


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "it is no global, counter or constant, and no variable on CPU 1"),
        ("zone", "zone is no variable on CPU 1 now; zone(...) takes 1 argument"),
        ("page(1, 2)", "page(...) takes 1 argument"),
        ("page(999999)", "page frame 999999 does not exist; there are 0 to 5119"),
        ("page(1).nothing", "unknown field of page 'nothing'"),
        ("page(0).slab.size", "it leads through a pointer that is NULL now"),
        ("page(0)[1]", "only arrays and pointers have elements"),
        ("size_index[24]", "element 24 does not exist: the array has 0 to 23"),
        ("cache_cpus", "each cpu has a cache_cpus of its own: write per_cpu(cache_cpus, 0)"),
        ("per_cpu(zones, 0)", "unknown per-cpu global 'zones'"),
        ("per_cpu(cache_cpus, 8)", "CPU 8 does not exist; there are 0 to 7"),
        ("kmem_cache(kmalloc-63)", "did you mean kmalloc-"),
        ("kmalloc(64)", "a watch expression calls no functions"),
        ("kmalloc.nothing", "kmalloc has no variable nothing on CPU 1 now"),
        ("cast(nothing, 1)", "unknown struct 'nothing'"),
        ("cpu(9).clock", "CPU 9 does not exist"),
        ("cpu(0).nothing", "unknown field of a CPU 'nothing'"),
        ("0x3", "no memory at address 0x3"),
        ("0", "no memory at address 0x0"),
        ("-1", "there is no memory at address -0x1"),
        ("9" * 60, "there is no memory"),
        ("object(1, 0)", "page frame 1 is of no slab now"),
        ("ALLOC_FASTPATH.x", "a number has no fields and elements"),
        ("array_cache(kmalloc-64, 0)", "this kernel has no array_cache structures of that kind"),
    ],
)
def test_what_cannot_be_read_says_why(slub, text, says):
    assert says in error(slub, text, cpu=1)


NAMES = (
    "page cpu object kmem_cache kmem_cache_cpu kmalloc-64 mem_map cache_cpus inuse slab size freelist next "
    "kmalloc this_cpu per_cpu cast zone lock flags 1 1714 0x1400000 -1 ( ) [ ] . , : 4 8"
).split()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(NAMES), max_size=12).map("".join) | st.text(max_size=40))
def test_any_text_gives_a_value_or_one_line(slub, text):
    before = slub.machine.state_hash() if len(text) % 7 == 0 else None
    (found,) = watch(slub, [text])
    assert isinstance(found, WatchValue)
    assert bool(found.error) != bool(found.text)
    assert "\n" not in found.error
    if before is not None:
        assert slub.machine.state_hash() == before  # looking changes nothing
