"""Which machines there are: the machine files among the assets, or a user's own by path."""

from __future__ import annotations

from pathlib import Path

from slubviz.hw.machine_file import MachineFileError, MachineSpec, load_machine_file, parse_machine
from slubviz.model.assets import assets_folder
from slubviz.model.errors import RequestError, UserError, unknown_name


def machine_files() -> dict[str, Path]:
    """Known machines by name."""
    return {path.stem: path for path in sorted((assets_folder() / "machines").glob("*.toml"))}


def load_machine(name: str, cpus: int | None = None, text: str = "") -> MachineSpec:
    """A known machine by name or a machine file by path, with another number of CPUs if asked for.

    Parameters
    ----------
    text : a machine file's content, used in the place of what ``name`` stands for

    Raises
    ------
    UserError
        If there is none of that name, the file is wrong, or the number of CPUs is impossible.
    """
    try:
        spec = parse_machine(text, f"machine {name}") if text else load_machine_file(_machine_path(name))
    except MachineFileError as error:
        raise UserError(str(error)) from error
    try:
        return spec if cpus is None else spec.with_cpus(cpus)
    except MachineFileError as error:  # not the file is wrong, but what is asked of it
        raise RequestError(str(error)) from error


def _machine_path(name: str) -> Path:
    path = machine_files().get(name)
    if path is None:
        if not (name.endswith(".toml") or "/" in name):
            raise unknown_name("machine", name, machine_files(), "or the path of a .toml machine file")
        path = Path(name)
        if not path.is_file():
            raise RequestError(f"machine file {name} does not exist or is not a file")
    return path
