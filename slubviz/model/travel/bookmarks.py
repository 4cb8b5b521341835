"""Bookmarks: places in a recording with a name and a note.

A recording keeps them as a list in their order: by branch, then by position.  The functions here change that
list in place.  Several bookmarks may be at one place; their names tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slubviz.model.errors import UserError, unknown_name


@dataclass(frozen=True)
class Bookmark:
    """A place in a branch."""

    branch: int
    position: int  #: micro-ops
    name: str
    note: str = ""


def place_of(bookmark: Bookmark) -> tuple[int, int]:
    """(branch, position), by which bookmarks are ordered."""
    return bookmark.branch, bookmark.position


def add_bookmark(
    bookmarks: list[Bookmark], branch: int, position: int, name: str = "", note: str = ""
) -> Bookmark:
    """Put a bookmark behind those of the same place or before it; without a name it gets a number.

    Raises
    ------
    UserError
        If another bookmark has that name.
    """
    taken = {bookmark.name for bookmark in bookmarks}
    name = name.strip() or _free_name(taken)
    if name in taken:
        raise UserError(f"there is a bookmark {name} already: give another name")
    added = Bookmark(branch, position, name, note)
    bookmarks.append(added)
    bookmarks.sort(key=place_of)  # stable
    return added


def _free_name(taken: set[str]) -> str:
    number = len(taken) + 1
    while f"bookmark {number}" in taken:
        number += 1
    return f"bookmark {number}"


def rename_bookmark(bookmarks: list[Bookmark], name: str, new_name: str, note: str | None = None) -> Bookmark:
    """Give a bookmark another name, and another note unless that is None.

    Raises
    ------
    UserError
        If there is no such bookmark, the new name is empty, or another one has it.
    """
    index = _index(bookmarks, name)
    new_name = new_name.strip()
    if not new_name:
        raise UserError("a bookmark needs a name")
    if new_name != name and any(bookmark.name == new_name for bookmark in bookmarks):
        raise UserError(f"there is a bookmark {new_name} already: give another name")
    old = bookmarks[index]
    bookmarks[index] = replace(old, name=new_name, note=old.note if note is None else note)
    return bookmarks[index]


def remove_bookmark(bookmarks: list[Bookmark], name: str) -> Bookmark:
    """Take a bookmark away.

    Raises
    ------
    UserError
        If there is none of that name.
    """
    return bookmarks.pop(_index(bookmarks, name))


def neighbour(bookmarks: list[Bookmark], branch: int, position: int, direction: int) -> Bookmark | None:
    """The next bookmark of a branch after a position, or the last one before it for a negative direction."""
    of_branch = [bookmark for bookmark in bookmarks if bookmark.branch == branch]
    if direction > 0:
        return next((bookmark for bookmark in of_branch if bookmark.position > position), None)
    return next((bookmark for bookmark in reversed(of_branch) if bookmark.position < position), None)


def _index(bookmarks: list[Bookmark], name: str) -> int:
    for index, bookmark in enumerate(bookmarks):
        if bookmark.name == name:
            return index
    raise unknown_name("bookmark", name, [bookmark.name for bookmark in bookmarks])
