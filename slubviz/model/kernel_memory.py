"""Typed access from outside to the structures in a machine's memory.

Static memory is stored word for word, so it can be seen as bytes: a struct array becomes a numpy record
array, and everything a snapshot or a check needs of thousands of page structures is one vectorised read.
The view is of the live state: it is only valid until the machine's state array is replaced (growing store,
restored checkpoint).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.machine import Machine
from slubviz.model.lang import Program, Struct

_SCALARS = {"int32": "<i4", "uint32": "<u4"}


class KernelMemory:
    """The structures of one program in one machine's static memory."""

    def __init__(self, machine: Machine, program: Program) -> None:
        self.machine = machine
        self.program = program
        self._dtypes: dict[str, np.dtype[Any]] = {}

    def dtype(self, struct: str) -> np.dtype[Any]:
        """numpy record type of a struct."""
        if struct not in self._dtypes:
            self._dtypes[struct] = self._make_dtype(self.program.struct(struct))
        return self._dtypes[struct]

    def _make_dtype(self, struct: Struct) -> np.dtype[Any]:
        names, formats, offsets = [], [], []
        for field in struct.fields.values():
            each: Any = self._field_format(field.type)
            names.append(field.name)
            formats.append((each, (field.count,)) if field.count > 1 else each)
            offsets.append(field.offset_bytes)
        return np.dtype(
            {"names": names, "formats": formats, "offsets": offsets, "itemsize": struct.size_bytes}
        )

    def _field_format(self, type_name: str) -> Any:
        if type_name in _SCALARS:
            return _SCALARS[type_name]
        if type_name in self.program.structs:
            return self.dtype(type_name)
        return f"<u{self.program.target.word_bytes}" if type_name.startswith(("ptr", "word")) else "<i8"

    def static_bytes(self) -> NDArray[np.uint8]:
        """All of static memory as bytes, a view; its first byte has address ``program.static_base``."""
        state = self.machine.state
        return state[int(state[L.H_STATIC]) : int(state[L.H_OWN_SLOTS])].view(np.uint8)

    def array(self, address: int, struct: str, count: int, stride_bytes: int = 0) -> NDArray[Any]:
        """``count`` structs at an address as a writable record array, shape (count,).

        Parameters
        ----------
        address : byte address in static memory
        stride_bytes : distance of one element to the next, 0 for the struct's size
        """
        dtype = self.dtype(struct)
        raw = self.static_bytes()[address - self.machine.memory.static_base :]
        return np.ndarray((count,), dtype, buffer=raw, strides=(stride_bytes or dtype.itemsize,))

    def one(self, address: int, struct: str) -> Any:
        """One struct as a record that can be read and written, ``m.one(a, "zone")["lock"]``."""
        return self.array(address, struct, 1)[0]

    def global_address(self, name: str, element: int = 0) -> int:
        """Address of a global, or of its element for a CPU or node."""
        variable = self.program.globals[name]
        return variable.address + element * variable.stride_bytes

    def global_structs(self, name: str) -> NDArray[Any]:
        """All elements of a global of structs, shape (count,)."""
        variable = self.program.globals[name]
        return self.array(variable.address, variable.type, variable.count, variable.stride_bytes)

    def field_address(self, address: int, struct: str, field: str) -> int:
        """Address of a field of the struct at an address."""
        return address + self.program.struct(struct).fields[field].offset_bytes
