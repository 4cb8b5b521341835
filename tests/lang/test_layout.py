"""Memory layout: structs against ctypes, field aliases, fixed sizes, globals and their elements."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.model.lang import Target
from tests.lang.helpers import STATIC_BASE, TARGET, TARGET_32, compiled, error_of, machine

_CTYPES = {
    8: {"word": ctypes.c_uint64, "ptr": ctypes.c_uint64, "int32": ctypes.c_int32, "uint32": ctypes.c_uint32},
    4: {"word": ctypes.c_uint32, "ptr": ctypes.c_uint32, "int32": ctypes.c_int32, "uint32": ctypes.c_uint32},
}
_FIELD = st.tuples(st.sampled_from(["word", "ptr", "int32", "uint32", "inner"]), st.integers(0, 5))


@settings(deadline=None, max_examples=100)
@given(
    inner=st.lists(_FIELD.filter(lambda f: f[0] != "inner"), max_size=4),
    outer=st.lists(_FIELD, max_size=8),
    word_bytes=st.sampled_from([4, 8]),
)
def test_layout_is_that_of_c(
    inner: list[tuple[str, int]], outer: list[tuple[str, int]], word_bytes: int
) -> None:
    known: dict[str, Any] = dict(_CTYPES[word_bytes])

    def build(name: str, fields: list[tuple[str, int]]) -> str:
        lines = [f"class {name}(struct):", "    pass"]
        members = []
        for number, (kind, count) in enumerate(fields):
            # count 0 stands for a plain field, the others for arrays
            lines.append(f"    f{number}: " + (f"array[{kind}, {count}]" if count else kind))
            members.append((f"f{number}", known[kind] * count if count else known[kind]))
        known[name] = type(name, (ctypes.Structure,), {"_fields_": members})
        return "\n".join(lines) + "\n"

    text = build("inner", inner) + build("outer", outer)
    program = compiled(text, Target(word_bytes, {}, STATIC_BASE))
    for name in ("inner", "outer"):
        struct, reference = program.struct(name), known[name]
        assert struct.size_bytes == ctypes.sizeof(reference)
        assert struct.align == ctypes.alignment(reference)
        for field_name, _ in reference._fields_:
            place = getattr(reference, field_name)
            field = struct.fields[field_name]
            assert (field.offset_bytes, field.size_bytes) == (place.offset, place.size)


def test_fields_know_their_element_type_and_count() -> None:
    struct = compiled("""
        class list_head(struct):
            next: ptr[list_head]
        class s(struct):
            a: array[ptr[list_head], NR_CPUS]
            b: list_head
            c: array[uint32, PAGE_SIZE // 1024]
            d: array[word, 0]
    """).struct("s")
    assert [(f.name, f.type, f.count, f.offset_bytes, f.size_bytes) for f in struct.fields.values()] == [
        ("a", "ptr[list_head]", 8, 0, 64),
        ("b", "list_head", 1, 64, 8),
        ("c", "uint32", 4, 72, 16),
        ("d", "word", 0, 88, 0),
    ]
    assert struct.size_bytes == 88


def test_alias_lies_over_an_earlier_field() -> None:
    struct = compiled("""
        class page(struct, size=56):
            flags: word
            mapping: ptr
            end: ptr = at("mapping")
            big: array[word, 3] = at("flags")
            index: word
    """).struct("page")
    offsets = {name: field.offset_bytes for name, field in struct.fields.items()}
    # like a C union, the fields behind an alias follow the larger of the two
    assert offsets == {"flags": 0, "mapping": 8, "end": 8, "big": 0, "index": 24}
    assert struct.size_bytes == 56


def test_size_and_alignment_can_be_fixed() -> None:
    struct = compiled(
        """
        class a(struct, align=64):
            x: int32
        class b(struct, size=40):
            x: int32
            y: array[a, 0]
        class c(struct):
            first: int32
            inner: a
    """.replace("size=40", "size=PAGE_SIZE // 64")
    ).structs
    assert (struct["a"].size_bytes, struct["a"].align) == (64, 64)
    assert (struct["b"].size_bytes, struct["b"].align) == (64, 64)
    assert struct["c"].fields["inner"].offset_bytes == 64
    assert struct["c"].size_bytes == 128


def test_globals_lie_on_cache_lines_in_order() -> None:
    program = compiled("""
        class zone(struct):
            lock: int32
        x: word
        table: array[zone, 20]
        cpus: per_cpu[zone]
        nodes: per_node[array[word, 9]]
        last: uint32
    """)
    made = program.globals
    assert [(g.name, g.address - STATIC_BASE) for g in made.values()] == [
        ("x", 0),
        ("table", 64),
        ("cpus", 64 + 128),
        ("nodes", 192 + 8 * 64),
        ("last", 192 + 8 * 64 + 4 * 128),
    ]
    assert program.static_end == STATIC_BASE + 192 + 512 + 512 + 64
    assert program.static_base == STATIC_BASE
    table = made["table"]
    assert (table.type, table.count, table.stride_bytes, table.size_bytes, table.per) == (
        "zone", 20, 4, 80, "",
    )  # fmt: skip
    cpus = made["cpus"]
    assert (cpus.type, cpus.count, cpus.stride_bytes, cpus.size_bytes, cpus.per) == (
        "zone", 8, 64, 512, "cpu",
    )  # fmt: skip
    nodes = made["nodes"]
    assert (nodes.type, nodes.count, nodes.stride_bytes, nodes.per) == ("array[word, 9]", 4, 128, "node")


def test_static_base_is_rounded_to_a_line_and_the_line_is_the_targets() -> None:
    program = compiled("x: word\ny: word\n", Target(8, {}, 1000, line_bytes=128))
    assert [g.address for g in program.globals.values()] == [1024, 1152]
    assert program.static_end == 1280


def test_elements_of_per_cpu_and_per_node_globals() -> None:
    text = """
        class pcp(struct):
            count: int32
            list: array[word, 3]
        cpus: per_cpu[pcp]
        nodes: per_node[pcp]
        tables: per_cpu[array[word, 4]]
        def here() -> ptr:
            return this_cpu(cpus)
        def other(cpu) -> ptr:
            return per_cpu(cpus, cpu)
        def third() -> ptr:
            return per_cpu(cpus, 3)
        def node(nid) -> ptr:
            return per_node(nodes, nid)
        def word_of(i):
            this_cpu(tables)[i] = 7
            return addressof(this_cpu(cpus).list[i])
    """
    run = machine(text, cpu=5)
    made = run.program.globals
    assert run.call("here") == made["cpus"].address + 5 * 64
    assert run.call("other", 6) == made["cpus"].address + 6 * 64
    assert run.call("third") == made["cpus"].address + 3 * 64
    assert run.call("node", 2) == made["nodes"].address + 2 * 64
    assert run.call("word_of", 2) == made["cpus"].address + 5 * 64 + 8 + 16
    assert run.read(made["tables"].address + 5 * 64 + 16, 8) == 7


def test_one_cpu_and_one_node_need_no_number() -> None:
    text = """
        class pcp(struct):
            count: word
        cpus: per_cpu[pcp]
        def f():
            this_cpu(cpus).count = smp_processor_id() + numa_node_id()
    """
    run = machine(text, TARGET_32, cpu=0)
    run.call("f")
    assert run.accesses == [("ST", run.program.globals["cpus"].address, 4)]
    assert len(run.executed) == 4  # value, address, store, return


def test_word_size_rules_loads_and_stores() -> None:
    text = """
        class s(struct):
            a: word
            p: ptr
            i: int32
            u: uint32
        def f(s: s):
            s.a = -1
            s.p = -1
            s.i = -1
            s.u = -1
            return (s.a == -1) * 8 + (s.p == -1) * 4 + (s.i == -1) * 2 + (s.u == -1)
    """
    wide = machine(text, TARGET)
    assert wide.call("f", 4096) == 8 + 4 + 2
    assert [size for _, _, size in wide.accesses] == [8, 8, 4, 4] * 2
    narrow = machine(text, TARGET_32)
    assert narrow.call("f", 4096) == 2  # an unsigned 32-bit word is never -1
    assert {size for _, _, size in narrow.accesses} == {4}


def test_sizeof_and_offsetof() -> None:
    run = machine("""
        class lru(struct):
            next: ptr
            prev: ptr
        class page(struct):
            flags: word
            link: lru
        PREV = offsetof(page, link.prev)
        TABLE = array_bytes * 2
        array_bytes = sizeof(array[int32, 5])
        def f():
            return sizeof(page) * 10000 + PREV * 100 + TABLE
        def g(x):
            return container_of(x, page, link.prev)
    """)
    assert run.call("f") == 24 * 10000 + 16 * 100 + 40
    assert run.call("g", 1016) == 1000
    assert run.program.constants["TABLE"] == 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "class a(struct):\n    x: pge\nclass page(struct):\n    y: word\n",
            "t.py:2:8: unknown type pge: `pge` (did you mean page?)",
        ),
        (
            "class a(struct):\n    x: int\n",
            "t.py:2:8: unknown type int: `int` (write word, int32 or uint32)",
        ),
        (
            "class a(struct):\n    x: a\n",
            "t.py:2:8: struct a contains itself: `a` (use a pointer: ptr[a])",
        ),
        (
            "class a(struct):\n    x: array[a, 2]\n",
            "t.py:2:8: struct a contains itself: `array[a, 2]` (use a pointer: ptr[a])",
        ),
        (
            "class a(struct):\n    x: word\n    x: word\n",
            "t.py:3:5: field x is defined twice in struct a: `x`",
        ),
        (
            "class a(struct, size=4):\n    x: array[int32, 2]\n",
            "t.py:1:22: struct a cannot have 4 bytes: `4` (at least 8 and a multiple of 4)",
        ),
        (
            "class a(struct, align=3):\n    x: int32\n",
            "t.py:1:23: struct a cannot be aligned to 3: `3` (a power of two from 4 on)",
        ),
        (
            "class a(struct, packed=1):\n    x: word\n",
            "t.py:1:17: unknown argument of a struct: `packed=1` (only size= and align= exist)",
        ),
        (
            'class a(struct):\n    mapping: ptr\n    end: ptr = at("maping")\n',
            't.py:3:16: no earlier field maping: `at("maping")` (did you mean mapping?)',
        ),
        (
            'class a(struct):\n    x: int32\n    y: int32\n    z: word = at("y")\n',
            't.py:4:15: offset 4 of y is not aligned to 8 bytes: `at("y")`',
        ),
        (
            "class a(struct):\n    x: word = 3\n",
            't.py:2:15: a field has no initial value: `3` (only name: type = at("other_field") is possible)',
        ),
        (
            "class a(struct):\n    def f(self):\n        pass\n",
            "t.py:2:5: a struct has no methods: `def f` (define the function outside and pass it a pointer)",
        ),
        (
            "class a(struct):\n    x = 3\n",
            "t.py:2:5: a struct holds fields only: `x = 3` (write name: type)",
        ),
        ("class a:\n    x: word\n", "t.py:1:1: a class must be a struct: `class a` (write class a(struct):)"),
        (
            "class a(struct):\n    x: array[word]\n",
            "t.py:2:8: an array needs a type and a length: `array[word]` (write array[type, length])",
        ),
        (
            "class a(struct):\n    x: array[word, -1]\n",
            "t.py:2:20: an array's length goes from 0 to 16777216, not -1: `-1`",
        ),
        (
            "class a(struct):\n    x: union[word]\n",
            "t.py:2:8: there are no unions: `union[word]` "
            '(place a field over another one: name: type = at("other"))',
        ),
        (
            "class a(struct):\n    x: per_cpu[word]\n",
            "t.py:2:8: per_cpu is possible only for a global: `per_cpu[word]` "
            "(declare it outside structs and functions)",
        ),
        (
            'x: "word"\n',
            "t.py:1:4: a type is not written in quotes: `\"word\"` (write word)",
        ),
        (
            "x: word = 3\n",
            "t.py:1:1: a global starts at zero and has no initial value: `x: word = 3` "
            "(set it in a function; for a constant write NAME = value without a type)",
        ),
        (
            "class a(struct):\n    x: word\nclass a(struct):\n    y: word\n",
            "t.py:3:1: struct a is already defined at t.py:1: `class a` (choose another name)",
        ),
        (
            "class page(struct):\n    flags: word\ndef f(p: page):\n    return p.flag\n",
            "t.py:4:12: struct page has no field flag: `p.flag` (did you mean flags?)",
        ),
        (
            "class page(struct):\n    flags: word\ndef f(p):\n    return p.flags\n",
            "t.py:4:12: p is an integer and has no fields: `p.flags` "
            "(annotate it, e.g. p: page, or cast(page, p))",
        ),
        (
            "class page(struct):\n    ids: array[word, 4]\ndef f(p: page):\n    return p.ids\n",
            "t.py:4:12: p.ids is an array, not a value: `p.ids` "
            "(write addressof(p.ids), or name a part of it)",
        ),
        (
            "class page(struct):\n    ids: array[word, 4]\ndef f(p: page):\n    return p.ids[4]\n",
            "t.py:4:12: index 4 is outside 0 .. 3: `p.ids[4]`",
        ),
        (
            "def f(p: ptr):\n    return p[0]\n",
            "t.py:2:12: p is of type ptr and has no elements: `p[0]` "
            "(write cast(ptr[ptr], p)[...] to say what it points to)",
        ),
        (
            "x: per_cpu[word]\ndef f():\n    return x\n",
            "t.py:3:12: x exists once for every cpu: `x` (write this_cpu(x) or per_cpu(x, cpu))",
        ),
        (
            "x: per_node[word]\ndef f():\n    return this_cpu(x)[0]\n",
            "t.py:3:21: x is not a per-cpu global: `x` (declare it: name: per_cpu[type])",
        ),
        (
            "class s(struct):\n    a: array[ptr, NR_CPUS]\ndef f(s: s):\n    return this_cpu(s.a)\n",
            "t.py:4:21: s.a is not a per-cpu global: `s.a` (for an array write s.a[smp_processor_id()])",
        ),
        (
            "x: per_cpu[word]\ndef f():\n    return per_cpu(x, 8)[0]\n",
            "t.py:3:12: x has elements 0 to 7, not 8: `per_cpu(x, 8)`",
        ),
    ],
)  # fmt: skip
def test_errors_in_layout(text: str, message: str) -> None:
    assert error_of(text) == message


def test_unknown_number_of_cpus_is_reported() -> None:
    message = error_of("x: per_cpu[word]\n", Target(8, {}, 4096))
    assert message == "t.py:1:1: the target does not say NR_CPUS: `x: per_cpu[word]`"
