"""Which kernels there are: a name, its kernel-language files and the options that make the variant.

``load_kernel`` takes a known name or the path of a user's own allocator file, which then stands in the
place of ``slub.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slubviz.model.assets import program_folder
from slubviz.model.errors import RequestError, UserError, unknown_name
from slubviz.model.lang import SourceFile

_ALL_PATCHES = {f"PATCH_{number:02}": 1 for number in range(1, 11)}
_BELOW = ("allocators/page_allocator.py",)
_WORKLOADS = ("workloads/tests_a_to_f.py", "workloads/interrupt_handlers.py")


@dataclass(frozen=True)
class KernelVariant:
    """One kernel: an allocator's source with its options."""

    name: str
    title: str
    files: tuple[str, ...] = ("allocators/slub.py",)
    options: Mapping[str, int] = field(default_factory=dict)
    user_file: Path | None = None
    family: str = "slub"  #: which structures it has; see ``families``

    def sources(self) -> list[SourceFile]:
        """The kernel-language files to compile, in order, the workloads last.

        Raises
        ------
        UserError
            If a user's file cannot be read.
        """
        own = (
            [_read_user_file(self.user_file)] if self.user_file else [_packaged(name) for name in self.files]
        )
        return [*(_packaged(name) for name in _BELOW), *own, *(_packaged(name) for name in _WORKLOADS)]


KERNELS: dict[str, KernelVariant] = {
    kernel.name: kernel
    for kernel in (
        KernelVariant("slub", "SLUB of 2.6.24-rc1"),
        KernelVariant(
            "slub+",
            "SLUB with the ten patches of October 2007, cmpxchg_local fast paths",
            options=_ALL_PATCHES,
        ),
    )
}


def _packaged(name: str) -> SourceFile:
    folder, file = name.split("/")
    return SourceFile(file, (program_folder(folder) / file).read_text(encoding="utf-8"))


def _read_user_file(path: Path) -> SourceFile:
    try:
        return SourceFile(path.name, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not a text file in UTF-8; a kernel file is kernel-language source"
        ) from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def load_kernel(name: str) -> KernelVariant:
    """A known kernel by name, or a user's file by path.

    Raises
    ------
    RequestError
        If there is neither; lists the known names.
    """
    known = KERNELS.get(name.lower())
    if known is not None:
        return known
    path = Path(name)
    if path.suffix == ".py" or "/" in name:
        if not path.is_file():
            raise RequestError(f"kernel file {name} does not exist or is not a file")
        return KernelVariant(path.stem, f"from {name}", user_file=path)
    raise unknown_name("kernel", name, KERNELS, "or the path of a .py file in the kernel language")
