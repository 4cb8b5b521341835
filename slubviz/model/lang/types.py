"""Types of the kernel language: scalars, pointers, structs and arrays.

A value in a register is always 64 bits; types say how memory is laid out, how a load extends, and which
fields a pointer leads to.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scalar:
    """An integer in memory: ``word``, ``int32``, ``uint32``; or ``int``, a computed 64-bit number."""

    name: str
    size_bytes: int
    signed: bool


@dataclass(frozen=True)
class StructRef:
    """A struct, by name."""

    name: str


@dataclass(frozen=True)
class Pointer:
    """``ptr`` (target None) or ``ptr[target]``."""

    target: Type | None

    @property
    def name(self) -> str:
        """As written in a program."""
        return "ptr" if self.target is None else f"ptr[{self.target.name}]"


@dataclass(frozen=True)
class Array:
    """``array[element, count]``."""

    element: Type
    count: int

    @property
    def name(self) -> str:
        """As written in a program."""
        return f"array[{self.element.name}, {self.count}]"


Type = Scalar | StructRef | Pointer | Array

#: A number that was computed, not loaded: compatible with everything.
INT = Scalar("int", 8, True)
#: NULL and untyped pointers.
POINTER = Pointer(None)

SCALAR_NAMES = ("word", "int32", "uint32")
TYPE_NAMES = (*SCALAR_NAMES, "ptr", "array")


def scalar(name: str, word_bytes: int) -> Scalar:
    """The scalar type of that name on a machine with that word size."""
    if name == "word":
        return Scalar("word", word_bytes, False)
    return Scalar(name, 4, name == "int32")


def compatible(wanted: Type, given: Type) -> bool:
    """Whether a value of type ``given`` may be kept where ``wanted`` is expected.

    Only two typed pointers to different things are refused; integers and untyped pointers go with all.
    """
    if not isinstance(wanted, Pointer) or not isinstance(given, Pointer):
        return True
    return wanted.target is None or given.target is None or wanted.target == given.target


def merged(first: Type, second: Type) -> Type:
    """The type of a value that is either: the more telling one."""
    if isinstance(first, Pointer) and first.target is not None:
        return first
    if isinstance(second, Pointer):
        return second
    return first
