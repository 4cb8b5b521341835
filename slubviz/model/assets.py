"""Where the files that come with slubviz are, in a checkout and in an installed wheel.

In a checkout ``assets/`` lies beside the package; a wheel carries it as ``slubviz/_assets``.
"""

from __future__ import annotations

from pathlib import Path

from slubviz.model.errors import UserError

_PACKAGE = Path(__file__).resolve().parent.parent


def assets_folder() -> Path:
    """The folder with ``machines/`` and ``published/``.

    Raises
    ------
    UserError
        If the installation lacks it.
    """
    for folder in (_PACKAGE / "_assets", _PACKAGE.parent / "assets"):
        if (folder / "published").is_dir():
            return folder
    raise UserError(f"the assets folder is missing beside {_PACKAGE}: install slubviz again")


def asset(*parts: str) -> Path:
    """One file or folder of the assets, e.g. ``asset("machines", "e5345_8p.toml")``.

    Raises
    ------
    UserError
        If it does not exist.
    """
    path = assets_folder().joinpath(*parts)
    if not path.exists():
        raise UserError(f"{'/'.join(parts)} is missing in {assets_folder()}: install slubviz again")
    return path


def program_folder(kind: str) -> Path:
    """The folder of kernel-language sources: ``kind`` is ``"allocators"`` or ``"workloads"``."""
    return _PACKAGE / "model" / kind
