"""What a kernel program must have so that the boot, the workloads and the checks can work with it.

Every family names its functions, globals and fields; a user's own allocator file that lacks one is refused
in one line before anything is written into memory.  The types of the fields are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slubviz.model.errors import UserError
from slubviz.model.lang import Program


@dataclass(frozen=True)
class Needs:
    """Names that a program must have."""

    reference: str  #: the kernel whose program shows how it is done
    functions: tuple[str, ...]
    globals: tuple[str, ...]
    fields: Mapping[str, tuple[str, ...]]  #: struct -> fields
    structs: Iterable[str] = ()  #: more structs
    constants: tuple[str, ...] = ()
    options: tuple[str, ...] = field(default=())

    @property
    def advice(self) -> str:
        """How to find out what is wrong."""
        return f"compare it with what slubviz source {self.reference} prints"

    def check(self, kernel: str, program: Program) -> None:
        """Refuse a program that lacks something.

        Raises
        ------
        UserError
            One line: everything that is missing.
        """
        present = {function.name for function in program.functions}
        missing = [f"function {name}" for name in self.functions if name not in present]
        missing += [f"constant {name}" for name in self.constants if name not in program.constants]
        missing += [f"option {name}" for name in self.options if name not in program.options]
        missing += [f"global {name}" for name in self.globals if name not in program.globals]
        for struct in dict.fromkeys((*self.fields, *self.structs)):
            if struct not in program.structs:
                missing.append(f"struct {struct}")
                continue
            fields = program.structs[struct].fields
            missing += [
                f"field {struct}.{name}" for name in self.fields.get(struct, ()) if name not in fields
            ]
        if missing:
            raise UserError(f"{kernel}: the kernel file lacks {', '.join(missing)}; {self.advice}")

    def check_room(self, kernel: str, program: Program, tables: Mapping[str, str], caches: int) -> None:
        """Refuse tables that are too short.

        Parameters
        ----------
        tables : global -> the struct of which it holds one for every cache (for each CPU or node)
        caches : how many the boot fills in

        Raises
        ------
        UserError
            One line: which table is too short.
        """
        for name, struct in tables.items():
            variable = program.globals[name]
            room = variable.stride_bytes if variable.per else variable.size_bytes
            if room < caches * program.structs[struct].size_bytes:
                raise UserError(
                    f"{kernel}: global {name} is too small: the boot fills {caches} structures {struct} "
                    f"in it; {self.advice}"
                )
