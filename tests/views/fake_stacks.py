"""Call stacks that are made up: an allocation, interrupts nested in it, many frames, an idle CPU."""

from __future__ import annotations

from dataclasses import replace

from slubviz.model.snapshot import SourceSpan
from slubviz.model.travel.call_stack import CallStackView, Frame, VariableValue

FILE = "slub_fastpath.py"
SOURCE = '''"""Fast paths of the kernel that is tested."""


@inline
def slab_alloc(s: kmem_cache, gfpflags, node) -> ptr:
    """Fast path: pop the CPU's own freelist."""
    preempt_off()
    c = get_cpu_slab(s)
    object = cast(free_object, c.freelist)
    while True:
        if is_end(object) or not node_match(c, node):
            object = cast(free_object, __slab_alloc(s, gfpflags, node, c))
            break
        found = cmpxchg_local(c.freelist, object, object.next)
        if found == object:
            count(ALLOC_FASTPATH)
            break
        object = cast(free_object, c.freelist)  # an interrupt took it
    preempt_on()
    return object


def kmalloc(size, flags):
    """Allocate from the cache of a size."""
    s = kmalloc_slab(size)
    return slab_alloc(s, flags, -1)


def irq_alloc(size):
    """Handler: allocate an object and hold it."""
    hold(kmalloc(size, GFP_ATOMIC))


def test_kmalloc(n, size):
    """Allocate n objects."""
    for i in range(n):
        objects[i] = kmalloc(size, GFP_KERNEL)
'''
LINES = tuple(SOURCE.splitlines())
SOURCES = {FILE: LINES}


def at(text: str, occurrence: int = 1) -> SourceSpan:
    """The span of the n-th occurrence of a text in the source."""
    seen = 0
    for number, line in enumerate(LINES, 1):
        column = line.find(text)
        if column >= 0:
            seen += 1
            if seen == occurrence:
                return SourceSpan(FILE, number, column + 1, number, column + 1 + len(text))
    raise AssertionError(f"{text!r} is not in the source {occurrence} times")


def variable(name: str, value: int, text: str = "", kind: str = "int") -> VariableValue:
    """A variable in a register."""
    return VariableValue(name, kind, value, text or str(value), 0)


def frame(function: str, span: SourceSpan, *variables: VariableValue, **changes: object) -> Frame:
    """A frame of the task."""
    base = Frame(function, span.file, span.line, span, 0, False, False, variables, None)
    return replace(base, **changes)  # type: ignore[arg-type]


def task() -> tuple[Frame, ...]:
    """test_kmalloc calls kmalloc, which has slab_alloc inlined."""
    return (
        frame("test_kmalloc", at("kmalloc(size, GFP_KERNEL)"), variable("n", 10_000), variable("size", 64)),
        frame(
            "kmalloc",
            at("slab_alloc(s, flags, -1)"),
            variable("size", 64),
            variable("flags", 208, "GFP_KERNEL"),
            variable("s", 0x4040, "kmalloc-64", "ptr[kmem_cache]"),
        ),
        frame(
            "slab_alloc",
            at("cmpxchg_local(c.freelist, object, object.next)"),
            variable("s", 0x4040, "kmalloc-64", "ptr[kmem_cache]"),
            variable("gfpflags", 208, "GFP_KERNEL"),
            variable("node", -1),
            variable("c", 0x8080, "cpu slab of CPU 0, kmalloc-64", "ptr[kmem_cache_cpu]"),
            variable("object", 0x32C040, "object 1 of slab 812", "ptr[free_object]"),
            inlined=True,
        ),
    )


def interrupt(level: int, size: int = 64) -> tuple[Frame, ...]:
    """irq_alloc, interrupted where the task is."""
    handler = frame(
        "irq_alloc",
        at("kmalloc(size, GFP_ATOMIC)"),
        variable("size", size),
        interrupt=True,
        saved_irq_enabled=True,
        level=level,
    )
    return (handler, *(replace(inner, level=level) for inner in task()[1:]))


def nested(depth: int, cpu: int = 0) -> CallStackView:
    """``depth`` interrupts, each in the fast path of the one before."""
    frames = list(task())
    for level in range(1, depth + 1):
        frames[-1] = replace(frames[-1], interrupted=True)
        frames += interrupt(level, 2 ** (5 + level))
    return CallStackView(
        cpu,
        "runs",
        True,
        1,
        depth,
        (),
        tuple(frames),
        clock_cycles=123_456.0,
        micro_op_text="r4 = cmpxchg_local [r1+0]",
        next=True,
    )


def deep(count: int, cpu: int = 0) -> CallStackView:
    """``count`` frames of one function."""
    one = task()[1]
    return replace(nested(0, cpu), frames=tuple(replace(one, function=f"level_{i}") for i in range(count)))


def idle(cpu: int = 1) -> CallStackView:
    """A CPU that has nothing to do."""
    return CallStackView(cpu, "idle", True, 0, 0, (), ())
