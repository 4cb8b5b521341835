"""What is known of one thing of a running kernel at one moment, and how things are named."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ObjectTarget:
    """An object, by the address of its first byte; any address inside it will do."""

    address: int


@dataclass(frozen=True)
class SlabTarget:
    """A slab, by the number of its first page frame; any of its pages will do."""

    page_frame: int


@dataclass(frozen=True)
class LockTarget:
    """A lock, by the address of its word."""

    address: int


@dataclass(frozen=True)
class ListTarget:
    """A list of slabs, by the address of its head; or an array of free objects, by its own address."""

    address: int


@dataclass(frozen=True)
class CpuTarget:
    """A CPU."""

    cpu: int


Target = ObjectTarget | SlabTarget | LockTarget | ListTarget | CpuTarget


@dataclass(frozen=True)
class Row:
    """One fact."""

    name: str
    value: str
    link: Target | None = None  #: what a click on the value shows
    position: int | None = None  #: micro-ops; where the fact came about, for going there; None if unknown


@dataclass(frozen=True)
class Inspection:
    """All that is known of one thing at one moment."""

    title: str  #: "object 3 of slab 812 (kmalloc-64)"
    rows: tuple[Row, ...]
    target: Target
