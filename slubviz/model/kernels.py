"""Which kernels there are: a name, its kernel-language files and the options that make the variant.

``load_kernel`` takes a known name or the path of a user's own allocator file, which then stands in the
place of all of a kernel's files.  Such a file says on which kernel it is based (see ``kernel_source``);
without a word it is SLUB of 2.6.24.  Either may be followed by a list of patches, see ``patches``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slubviz.model.assets import program_folder
from slubviz.model.errors import RequestError, UserError, unknown_name
from slubviz.model.kernel_source import base_kernel, defined_options
from slubviz.model.lang import SourceFile
from slubviz.model.patches import PATCHES, patch_label, patch_options, split_patches

_ALL_PATCHES = patch_options(PATCHES)
#: What changed in SLUB until 2.6.25-rc4.
_IN_2_6_25 = {
    "CONFIG_PREEMPT": 1,  # as it was measured in March 2008
    "PATCH_01": 1,
    "MIN_PARTIAL": 5,
    "FLUSH_INSTALLED_SLAB": 1,
    "FREE_TO_TAIL": 1,
    "PLAIN_BIT_UNLOCK": 1,
    "KMALLOC_4K": 1,
}
_NEEDS_FAST_CMPXCHG_LOCAL = "PATCH_08"
_SLUB = ("allocators/slub.py", "allocators/slub_fastpath.py")
_PAGE_ALLOCATOR = "allocators/page_allocator.py"
_LOCKLESS = tuple(f"allocators/{name}.py" for name in ("slub_lockless", "slub_lockless_paths", "slub_bulk"))
_WORKLOADS = ("workloads/tests_a_to_f.py", "workloads/interrupt_handlers.py")


@dataclass(frozen=True)
class KernelVariant:
    """One kernel: an allocator's source with its options."""

    name: str
    title: str
    files: tuple[str, ...] = _SLUB
    options: Mapping[str, int] = field(default_factory=dict)
    user_file: Path | None = None
    user_text: str | None = None  #: the content of ``user_file``, which then need not exist
    family: str = "slub"  #: which structures it has; see ``families``
    orders: Mapping[str, int] = field(default_factory=dict)  #: boot parameters; see ``requests``
    faulty: str = ""  #: what is known to be wrong with it, one sentence
    takes_patches: bool = False  #: whether a list of patches may follow the name
    page_struct: str = "allocators/page_struct.py"  #: the file that declares struct page
    statistics_era: str = "2.6.25"  #: whose statistics its counters are; see ``slabinfo``; "" if of none

    @property
    def description(self) -> str:
        """Title and known fault, one line."""
        return f"{self.title}.  Known fault: {self.faulty}" if self.faulty else self.title

    def options_on(self, fast_cmpxchg_local: bool) -> dict[str, int]:
        """Options of the kernel program on a machine whose local compare-and-exchange is fast, or is not.

        Where it is not, patch 08 is left out, in a user's file too.
        """
        options = dict(self.options)
        if not fast_cmpxchg_local:
            options.pop(_NEEDS_FAST_CMPXCHG_LOCAL, None)
            if self.user_file and _NEEDS_FAST_CMPXCHG_LOCAL in defined_options(self._own_text()):
                options[_NEEDS_FAST_CMPXCHG_LOCAL] = 0
        return options

    def allocator_sources(self) -> list[SourceFile]:
        """The kernel-language files of the allocator alone."""
        if self.user_file:
            return [SourceFile(self.user_file.name, self._own_text())]
        return [_packaged(name) for name in self.files]

    def _own_text(self) -> str:
        assert self.user_file is not None
        return _read_user_file(self.user_file) if self.user_text is None else self.user_text

    def sources(self, workloads: Sequence[str] = ()) -> list[SourceFile]:
        """The kernel-language files to compile, in order, the workloads last.

        Parameters
        ----------
        workloads : files in ``workloads/`` beside those that every kernel runs

        Raises
        ------
        UserError
            If a user's file cannot be read.
        """
        below = (self.page_struct, _PAGE_ALLOCATOR)
        tests = (*_WORKLOADS, *(f"workloads/{name}" for name in workloads))
        return [
            *(_packaged(name) for name in below),
            *self.allocator_sources(),
            *(_packaged(name) for name in tests),
        ]


KERNELS: dict[str, KernelVariant] = {
    kernel.name: kernel
    for kernel in (
        KernelVariant(
            "slab",
            "SLAB of 2.6.24",
            files=tuple(f"allocators/{name}.py" for name in ("slab_structures", "slab", "slab_reaper")),
            family="slab",
            statistics_era="",
        ),
        KernelVariant(
            "slub",
            "SLUB of 2.6.24-rc1",
            takes_patches=True,
            faulty="a slab that an interrupt installs while pages are fetched loses its local objects.",
        ),
        KernelVariant(
            "slub+",
            "SLUB with the ten patches of October 2007, cmpxchg_local fast paths",
            options=_ALL_PATCHES,
            faulty="an interrupt that leaves the same head on the freelist goes unnoticed (ABA).",
        ),
        KernelVariant(
            "slub-o",
            "SLUB+ with slabs of higher order: slub_max_order=3 slub_min_objects=20",
            options=_ALL_PATCHES,
            orders={"slub_max_order": 3, "slub_min_objects": 20},
            faulty="as slub+.",
        ),
        KernelVariant(
            "slub+pekka",
            "SLUB+ with Pekka Enberg's refactoring of patch 08, as reviewed (faulty)",
            files=(*_SLUB, "allocators/slub_fastpath_pekka.py"),
            options=_ALL_PATCHES,
            faulty="a misspelt condition, put_cpu without get_cpu, the CPU number read too early.",
        ),
        KernelVariant(
            "slub-2.6.25",
            "SLUB of 2.6.25-rc4",
            options=_IN_2_6_25,
            family="slub-2.6.25",
        ),
        KernelVariant(
            "slub-seq",
            "SLUB of 2.6.25-rc4 with a sequence number in the freelist word",
            files=("allocators/slub.py", "allocators/slub_fastpath_sequence.py"),
            options=_IN_2_6_25,
            family="slub-2.6.25",
        ),
        KernelVariant(
            "slub-cpu-partial",
            "SLUB of 3.6, lockless slow path, per-CPU partial lists",
            files=_LOCKLESS,
            options={"UNFREEZE_REWRITE": 1},
            family="slub_lockless",
            page_struct="allocators/page_struct_3_1.py",
            statistics_era="3.5",
        ),
        KernelVariant(
            "slub-bulk",
            "SLUB of 4.3 with bulk allocation and free",
            files=_LOCKLESS,
            options={"LINUX_4_3": 1, "BULK": 1},
            faulty="bulk allocation fetches pages without having moved the transaction id on.",
            family="slub_lockless",
            page_struct="allocators/page_struct_3_1.py",
            statistics_era="3.5",
        ),
        KernelVariant(
            "slub-bulk-fallback",
            "SLUB of 4.3 whose bulk calls are loops over single allocations and frees",
            files=_LOCKLESS,
            options={"LINUX_4_3": 1, "BULK": 0},
            family="slub_lockless",
            page_struct="allocators/page_struct_3_1.py",
            statistics_era="3.5",
        ),
    )
}


def _packaged(name: str) -> SourceFile:
    folder, file = name.split("/")
    return SourceFile(file, (program_folder(folder) / file).read_text(encoding="utf-8"))


def _read_user_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not a text file in UTF-8; a kernel file is kernel-language source"
        ) from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def load_kernel(name: str, text: str = "") -> KernelVariant:
    """A known kernel by name, or a user's file by path; with a list of patches or without.

    Parameters
    ----------
    text : an allocator file's content, used in the place of what ``name`` stands for

    Raises
    ------
    UserError
        If there is neither, listing the known names; if it takes no patches, or those make no sense; if the
        file cannot be read or is based on an unknown kernel.
    """
    plain, patches = split_patches(name)
    variant = _kernel_from_text(plain, text) if text else _load_kernel(plain)
    if patches is None:
        return variant
    if not variant.takes_patches:
        able = ", ".join(kernel.name for kernel in KERNELS.values() if kernel.takes_patches)
        raise RequestError(f"kernel {variant.name} takes no list of patches; give kernel {able}")
    label = patch_label(patches)
    return replace(
        variant,
        name=f"{variant.name}[{label}]",
        title=f"{variant.title} with patches {label}",
        options={**variant.options, **patch_options(patches)},
    )


def _load_kernel(name: str) -> KernelVariant:
    known = KERNELS.get(name.lower())
    if known is not None:
        return known
    path = Path(name)
    if path.suffix == ".py" or "/" in name:
        if not path.is_file():
            raise RequestError(f"kernel file {name} does not exist or is not a file")
        return _user_kernel(path, name, _read_user_file(path))
    raise unknown_name("kernel", name, KERNELS, "or the path of a .py file in the kernel language")


def _kernel_from_text(name: str, text: str) -> KernelVariant:
    """A kernel whose allocator file is given by content, under a known kernel's name or that of a file."""
    path = Path(name if name.endswith(".py") else f"{name}.py")
    return replace(_user_kernel(path, name, text), user_text=text)


def _user_kernel(path: Path, name: str, text: str) -> KernelVariant:
    """A user's file: its own program, all else as the kernel has it on which it is based."""
    based_on = base_kernel(text) or "slub"
    if based_on not in KERNELS:
        raise unknown_name(f"kernel, named in {path} as its base:", based_on, KERNELS)
    own, base = defined_options(text), KERNELS[based_on]
    return replace(
        base,
        name=path.stem,
        title=f"from {name}",
        # What the text defines has its own defaults; the page allocator's options are not in it.
        options={option: value for option, value in base.options.items() if option not in own},
        user_file=path,
        faulty="",
        takes_patches=set(patch_options(())) <= own,
    )
