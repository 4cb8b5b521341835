"""Looks up what a watch expression names, in a running machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState
from slubviz.hw.machine import MachineError
from slubviz.model.booted import BootedKernel
from slubviz.model.errors import unknown_name
from slubviz.model.lang.program import Variable
from slubviz.model.lang.types import INT, Array, Pointer, Scalar, StructRef, Type
from slubviz.model.snapshot_builder import call_stack_windows
from slubviz.model.symbols import lock_name
from slubviz.model.travel.call_stack import (
    INTERRUPT_SHARE,
    live_variables,
    lock_holder,
    number_text,
    pointer_text,
    variable_value,
)
from slubviz.model.travel.inspect_slabs import node_structures
from slubviz.model.travel.places import page_address, page_flags_text, slab_of_frame
from slubviz.model.travel.structures import read_value, size_of
from slubviz.model.travel.watch_grammar import Call, Element, Member, Name, Node, Number, WatchError, Word

#: Struct of which a cache has one for each CPU -> the global that holds them.
_OF_CPU = {"kmem_cache_cpu": "cache_cpus", "array_cache": "cpu_arrays"}
#: Structs of which a cache has one for each node.
_OF_NODE = ("kmem_cache_node", "kmem_list3")
_CPU_WORDS = {
    "clock": L.C_CLOCK,
    "state": L.C_STATE,
    "irq": L.C_IRQ_ENABLED,
    "preempt": L.C_PREEMPT,
    "depth": L.C_IRQ_DEPTH,
    "pc": L.C_PC,
    "micro_ops": L.C_MICRO_OPS,
}
_STATES = {
    CpuState.HALTED: "idle",
    CpuState.RUNNING: "runs",
    CpuState.WAITING_LOCK: "waits for a lock",
    CpuState.WAITING_RENDEZVOUS: "waits for the other CPUs",
}
#: Fields of a struct that the text of a whole struct shows.
_MOST_FIELDS = 8


@dataclass(frozen=True)
class Result:
    """A value for people."""

    value: int | None
    text: str
    address: int | None = None
    size_bytes: int = 8
    type_name: str = ""


@dataclass(frozen=True)
class _Memory:
    """Something in memory."""

    type: Type
    address: int


@dataclass(frozen=True)
class _Value:
    """A computed value."""

    type: Type
    value: int
    text: str = ""


@dataclass(frozen=True)
class _CpuOf:
    """``cpu(2)``, whose fields are not in memory."""

    cpu: int


_Found = _Memory | _Value | _CpuOf


class Lookup:
    """Looks things up at one moment.

    Parameters
    ----------
    cpu : the CPU that is looked at
    """

    def __init__(self, kernel: BootedKernel, cpu: int) -> None:
        self.kernel, self.cpu = kernel, cpu
        self.program, self.machine = kernel.program, kernel.machine
        self._forms: dict[str, tuple[int, Callable[[tuple[Node, ...]], _Found]]] = {
            "page": (1, self._page),
            "zone": (1, lambda a: self._per("zones", "node", a[0])),
            "object": (2, self._object),
            "cpu": (1, lambda a: _CpuOf(self._below(a[0], self.machine.spec.cpus, "CPU"))),
            "this_cpu": (1, lambda a: self._per(_name(a[0]), "cpu", Number(self.cpu))),
            "per_cpu": (2, lambda a: self._per(_name(a[0]), "cpu", a[1])),
            "per_node": (2, lambda a: self._per(_name(a[0]), "node", a[1])),
            "kmem_cache": (1, self._cache),
            "counter": (2, self._counter_of_cpu),
            "cast": (2, self._cast),
        }
        self._forms |= {struct: (2, self._form(self._of_cpu, struct)) for struct in _OF_CPU}
        self._forms |= {struct: (2, self._form(self._of_node, struct)) for struct in _OF_NODE}

    @staticmethod
    def _form(find: Callable[[str, Node, Node], _Found], struct: str) -> Callable[[tuple[Node, ...]], _Found]:
        return lambda arguments: find(struct, arguments[0], arguments[1])

    def value_of(self, node: Node) -> Result:
        """The value of an expression.

        Raises
        ------
        WatchError
            If a name is not known, or there is nothing to read now.
        """
        found = self._word(node, 8) if isinstance(node, Number) else self._find(node)
        match found:
            case _CpuOf():
                words = [(name, self._cpu_word(found.cpu, name)) for name in _CPU_WORDS]
                fields = ", ".join(f"{name} {word.text or number_text(word.value)}" for name, word in words)
                return Result(None, fields)
            case _Value():
                text = found.text or self._text(found.type, found.value, None)
                return Result(found.value, text, type_name=found.type.name)
            case _Memory():
                return self._memory_result(found)

    def _memory_result(self, found: _Memory) -> Result:
        size = size_of(self.program, found.type)
        if isinstance(found.type, Scalar | Pointer):
            value = self._read(found)
            text = self._text(found.type, value, found.address)
            return Result(value, text, found.address, size, found.type.name)
        return Result(None, self._whole_text(found), found.address, size, found.type.name)

    def _whole_text(self, found: _Memory) -> str:
        """All fields of a struct, or the first elements of an array, that are single words."""
        parts: list[str] = []
        if isinstance(found.type, StructRef):
            end = 0
            for field in self.program.structs[found.type.name].fields.values():
                own = field.offset_bytes >= end  # not another view of an earlier field
                end = max(end, field.offset_bytes + field.size_bytes)
                if own and isinstance(field.shape, Scalar | Pointer):
                    inner = _Memory(field.shape, found.address + field.offset_bytes)
                    parts.append(f"{field.name} {self._text(field.shape, self._read(inner), inner.address)}")
        elif isinstance(found.type, Array) and isinstance(found.type.element, Scalar | Pointer):
            each = size_of(self.program, found.type.element)
            for i in range(min(found.type.count, _MOST_FIELDS + 1)):
                inner = _Memory(found.type.element, found.address + i * each)
                parts.append(self._text(inner.type, self._read(inner), inner.address))
        more = ", …" if len(parts) > _MOST_FIELDS else ""
        return f"{{{', '.join(parts[:_MOST_FIELDS])}{more}}}" if parts else found.type.name

    # --- lookups ---------------------------------------------------------------------------------
    def _find(self, node: Node) -> _Found:
        match node:
            case Number(value=value):
                return _Value(INT, value)
            case Name(name=name):
                return self._named(name)
            case Call(name=name, arguments=arguments):
                return self._call(name, arguments)
            case Member(of=of, field=field):
                return self._member(of, field)
            case Element(of=of, index=index):
                return self._element(of, self._number(index))
            case Word(at=at, size_bytes=size):
                return self._word(at, size)

    def _named(self, name: str) -> _Found:
        variable = self.program.globals.get(name)
        if variable is not None:
            if variable.per:
                form = f"per_{variable.per}({name}, 0)"
                raise WatchError(f"each {variable.per} has a {name} of its own: write {form}")
            return _Memory(variable.shape, variable.address)
        if name in self.program.counters:
            return _Value(INT, int(self.machine.counters()[:, self._column(name)].sum()))
        if name in self.program.constants:
            return _Value(INT, self.program.constants[name])
        if name in self.program.options:
            return _Value(INT, self.program.options[name].value)
        local = self._local(None, name)
        if local is not None:
            return local
        if name in self._forms:
            raise WatchError(
                f"{name} is no variable on CPU {self.cpu} now; {_takes(name, self._forms[name][0])}"
            )
        known = [*self.program.globals, *self.program.counters, *self._forms]
        near = str(unknown_name("name", name, known)).partition(" (known")[0]
        raise WatchError(f"{near}; it is no global, counter or constant, and no variable on CPU {self.cpu}")

    def _local(self, function: str | None, name: str) -> _Value | None:
        """A variable of the innermost function of that name (or of the innermost that has it)."""
        for pc, window in call_stack_windows(self.machine, self.program, self.cpu):
            stack = self.program.inline_stack(pc)
            live = live_variables(self.program, pc)
            site = int(self.program.inline_site[pc])
            for inner, _ in reversed(stack):
                found = [v for v in live if v.name == name and v.site == site]
                if function in (None, inner.name) and found:
                    return self._variable(found[-1], window)
                site = self.program.inline_sites[site].parent if site >= 0 else -1
        return None

    def _variable(self, variable: Variable, window: int) -> _Value:
        value = variable_value(self.kernel, variable, window)
        return _Value(self._type(variable.type_name), value)

    def _type(self, name: str) -> Type:
        """The type of that name of a variable: a scalar, or a pointer to a struct."""
        if not name.startswith("ptr"):
            return INT
        target = name[4:-1]
        return Pointer(StructRef(target)) if target in self.program.structs else Pointer(None)

    def _call(self, name: str, arguments: tuple[Node, ...]) -> _Found:
        if name not in self._forms:
            raise WatchError(
                str(unknown_name("form", name, self._forms, "a watch expression calls no functions"))
            )
        count, form = self._forms[name]
        if len(arguments) != count:
            raise WatchError(_takes(name, count))
        return form(arguments)

    def _member(self, of: Node, field: str) -> _Found:
        if isinstance(of, Name) and self._is_function(of.name):
            local = self._local(of.name, field)
            if local is None:
                raise WatchError(f"{of.name} has no variable {field} on CPU {self.cpu} now")
            return local
        base = self._find(of)
        if isinstance(base, _CpuOf):
            if field not in _CPU_WORDS:
                raise WatchError(str(unknown_name("field of a CPU", field, _CPU_WORDS)))
            return self._cpu_word(base.cpu, field)
        base = self._behind(base)
        if not isinstance(base.type, StructRef):
            raise WatchError(f"{base.type.name} has no field {field}")
        fields = self.program.structs[base.type.name].fields
        if field not in fields:
            raise WatchError(str(unknown_name(f"field of {base.type.name}", field, fields)))
        return _Memory(fields[field].shape, base.address + fields[field].offset_bytes)

    def _is_function(self, name: str) -> bool:
        known = name in self.program.globals or name in self.program.counters
        return not known and any(function.name == name for function in self.program.functions)

    def _behind(self, found: _Found) -> _Memory:
        """What a pointer leads to; what is no pointer stays."""
        if isinstance(found, _CpuOf):
            raise WatchError("a CPU lies not in memory")
        if isinstance(found.type, Pointer):
            value = found.value if isinstance(found, _Value) else self._read(found)
            if value == 0:
                raise WatchError("it leads through a pointer that is NULL now")
            if found.type.target is None:
                raise WatchError("it leads through a pointer without a type: write cast(struct, pointer)")
            return _Memory(found.type.target, value)
        if isinstance(found, _Value):
            raise WatchError("a number has no fields and elements; cast(struct, number) gives it some")
        return found

    def _element(self, of: Node, index: int) -> _Memory:
        base = self._find(of)
        if not isinstance(base, _CpuOf) and isinstance(base.type, Pointer):
            start = self._behind(base)
            return _Memory(start.type, start.address + index * size_of(self.program, start.type))
        if not isinstance(base, _Memory) or not isinstance(base.type, Array):
            raise WatchError("only arrays and pointers have elements")
        if not 0 <= index < base.type.count:
            raise WatchError(f"element {index} does not exist: the array has 0 to {base.type.count - 1}")
        each = base.type.element
        return _Memory(each, base.address + index * size_of(self.program, each))

    def _word(self, at: Node, size: int) -> _Memory:
        address = self._address(at)
        return _Memory(Scalar("word" if size == 8 else "uint32", size, False), address)

    def _address(self, node: Node) -> int:
        """Of a number or pointer its value, of what lies in memory its address."""
        found = self._find(node)
        if isinstance(found, _Value):
            return found.value
        if isinstance(found, _Memory):
            return self._read(found) if isinstance(found.type, Pointer) else found.address
        raise WatchError("a CPU has no address")

    # --- forms -----------------------------------------------------------------------------------
    def _page(self, arguments: tuple[Node, ...]) -> _Memory:
        frame = self._below(arguments[0], self.program.globals["mem_map"].count, "page frame")
        return _Memory(StructRef("page"), page_address(self.kernel, frame))

    def _object(self, arguments: tuple[Node, ...]) -> _Value:
        frame = self._number(arguments[0])
        slab = slab_of_frame(self.kernel, frame)
        if slab is None:
            raise WatchError(f"page frame {frame} is of no slab now")
        index = self._below(arguments[1], slab.objects, f"object of slab {slab.page_frame}")
        target = StructRef("free_object") if "free_object" in self.program.structs else None
        return _Value(Pointer(target), slab.first_object + index * slab.size_bytes)

    def _per(self, name: str, per: str, element: Node) -> _Memory:
        variable = self.program.globals.get(name)
        if variable is None or variable.per != per:
            known = [g.name for g in self.program.globals.values() if g.per == per]
            raise WatchError(str(unknown_name(f"per-{per} global", name, known)))
        index = self._below(element, variable.count, per if per == "node" else "CPU")
        return _Memory(variable.shape, variable.address + index * variable.stride_bytes)

    def _cache(self, arguments: tuple[Node, ...]) -> _Memory:
        return _Memory(StructRef("kmem_cache"), self.kernel.cache_address(self._cache_index(arguments[0])))

    def _cache_index(self, node: Node) -> int:
        caches = self.kernel.family.cache_sizes(self.machine.spec)
        names = {self.kernel.cache_name(index): index for index in caches}
        if isinstance(node, Name):
            if node.name not in names:
                raise WatchError(str(unknown_name("cache", node.name, names)))
            return names[node.name]
        index = self._number(node)
        if index not in caches:
            raise WatchError(f"cache {index} does not exist; write its name: {', '.join(names)}")
        return index

    def _of_node(self, struct: str, cache: Node, node: Node) -> _Memory:
        structures = node_structures(self.kernel, self._cache_index(cache))
        number = self._below(node, len(structures), "node")
        address, found, _ = structures[number]
        if found != struct:
            raise WatchError(f"this kernel has no {struct} structures; a cache has a {found} on each node")
        return _Memory(StructRef(struct), address)

    def _of_cpu(self, struct: str, cache: Node, cpu: Node) -> _Memory:
        name = _OF_CPU[struct]
        if name not in self.program.globals:
            raise WatchError(f"this kernel has no {struct} structures of that kind")
        base = self._per(name, "cpu", cpu)
        # Each CPU has a table with the structures of all caches, one after the other.
        table = base.type
        if isinstance(table, StructRef):
            table = next(iter(self.program.structs[table.name].fields.values())).shape
        if not isinstance(table, Array):
            raise WatchError(f"{name} holds no table of {struct} structures")
        each = size_of(self.program, table.element)
        return _Memory(StructRef(struct), base.address + self._cache_index(cache) * each)

    def _counter_of_cpu(self, arguments: tuple[Node, ...]) -> _Value:
        name = _name(arguments[0])
        if name not in self.program.counters:
            raise WatchError(str(unknown_name("counter", name, self.program.counters)))
        cpu = self._below(arguments[1], self.machine.spec.cpus, "CPU")
        return _Value(INT, int(self.machine.counters()[cpu, self._column(name)]))

    def _column(self, counter: str) -> int:
        return L.HARDWARE_COUNTERS + self.program.counters.index(counter)

    def _cast(self, arguments: tuple[Node, ...]) -> _Value:
        struct = _name(arguments[0])
        if struct not in self.program.structs:
            raise WatchError(str(unknown_name("struct", struct, self.program.structs)))
        return _Value(Pointer(StructRef(struct)), self._address(arguments[1]))

    def _cpu_word(self, cpu: int, field: str) -> _Value:
        value = self.machine.cpu_word(cpu, _CPU_WORDS[field])
        if field == "preempt":
            value -= self.machine.cpu_word(cpu, L.C_IRQ_DEPTH) * INTERRUPT_SHARE
        if field == "clock":
            value //= L.MILLI
        text = ""
        if field == "state":
            text = _STATES[CpuState(value)]
        elif field == "irq":
            text = "on" if value else "off"
        return _Value(INT, value, text)

    # --- values ----------------------------------------------------------------------------------
    def _below(self, node: Node, end: int, what: str) -> int:
        value = self._number(node)
        if not 0 <= value < end:
            raise WatchError(f"{what} {value} does not exist; there are 0 to {end - 1}")
        return value

    def _number(self, node: Node) -> int:
        found = self._find(node)
        if isinstance(found, _Value):
            return found.value
        if isinstance(found, _Memory) and isinstance(found.type, Scalar | Pointer):
            return self._read(found)
        raise WatchError("a number is expected")

    def _read(self, found: _Memory) -> int:
        if not 0 <= found.address < 1 << 62:
            raise WatchError(f"there is no memory at address {found.address:#x}")
        try:
            return read_value(self.machine, self.program, found.address, found.type)
        except MachineError as error:
            raise WatchError(str(error)) from None

    def _text(self, type_: Type, value: int, address: int | None) -> str:
        if isinstance(type_, Pointer):
            struct = type_.target.name if isinstance(type_.target, StructRef) else ""
            return pointer_text(self.kernel, struct, value)[0]
        text = number_text(value)
        if address is None:
            return text
        flags = page_flags_text(self.kernel, address, value)
        holder = lock_holder(self.kernel, address)
        lock = f"{lock_name(self.kernel, address)}, held by CPU {holder}" if holder >= 0 else ""
        notes = "; ".join(note for note in (flags, lock) if note)
        return f"{text} ({notes})" if notes else text


def _takes(form: str, count: int) -> str:
    return f"{form}(...) takes {count} argument{'s' if count > 1 else ''}"


def _name(node: Node) -> str:
    if not isinstance(node, Name):
        raise WatchError("a name is expected as the first argument")
    return node.name
