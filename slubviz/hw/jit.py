"""How the engine is compiled: numba, its cache folder, and the switch that turns it off.

Interface: ``njit`` (decorator for every jitted function of slubviz), ``jit_enabled``,
``cache_folder``, ``cache_is_warm``.

numba's own cache does not notice a change in a *callee's* file.  The cache folder is therefore named after
a hash of all sources that hold jitted code: a changed source means a new folder.
``NUMBA_DISABLE_JIT=1`` in the environment runs everything as plain Python (about 2,000 times slower).
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numba
import platformdirs

_JITTED_SOURCES = ("hw/*.py", "model/memory_scan.py")


def _sources_hash() -> str:
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256(numba.__version__.encode())
    for pattern in _JITTED_SOURCES:
        for path in sorted(package.glob(pattern)):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _choose_cache_folder() -> Path:
    configured = os.environ.get("SLUBVIZ_CACHE_DIR")
    root = Path(configured) if configured else Path(platformdirs.user_cache_dir("slubviz"))
    return root / "numba" / _sources_hash()


cache_folder: Path = _choose_cache_folder()
jit_enabled: bool = not numba.config.DISABLE_JIT


def _cache_is_usable() -> bool:
    try:
        cache_folder.mkdir(parents=True, exist_ok=True)
        return os.access(cache_folder, os.W_OK)
    except OSError:
        return False  # read-only home: compile every time rather than fail


_use_cache = jit_enabled and _cache_is_usable()
if _use_cache:
    numba.config.CACHE_DIR = str(cache_folder)


def cache_is_warm() -> bool:
    """Whether the engine was compiled before, so that a start takes no compile time."""
    return not jit_enabled or (_use_cache and any(cache_folder.rglob("*.nbi")))


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM while one function compiles.

    An exception raised inside a callback of the compiler would be lost there, and the compiler fail later.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers in the main thread only
        return
    arrived: list[tuple[int, FrameType | None]] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, lambda n, f: arrived.append((n, f))) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for received, frame in arrived:
            wanted = previous[signal.Signals(received)]
            if callable(wanted):
                wanted(received, frame)


def _forget_cached(name: str) -> None:
    """Delete a function's cache files, so that the next start writes sound ones."""
    for path in cache_folder.rglob(f"*.{name}-*.nb?"):
        with suppress(OSError):
            path.unlink()


def njit(signature: Any, *, internal: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile with an explicit signature (a literal argument would otherwise compile twice).

    ``nogil`` is on: a window must stay alive while the engine runs.

    Parameters
    ----------
    signature : numba's text, or object, for result and argument types
    internal : only jitted code calls it; compiles faster without the wrappers for Python and C, but must
        not be called from Python
    """

    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True} if internal else {}

    def compiled_with(function: Callable[..., Any], cache: bool) -> Callable[..., Any]:
        compile_it = numba.njit(signature, cache=cache, nogil=True, boundscheck=False, **options)
        compiled: Callable[..., Any] = compile_it(function)
        return compiled

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        with _interrupts_deferred():
            if not _use_cache:
                return compiled_with(function, cache=False)
            try:
                return compiled_with(function, cache=True)
            except Exception:  # a damaged file raises anything, a full disk OSError
                _forget_cached(function.__name__)
                return compiled_with(function, cache=False)  # an error of the function itself comes again

    return decorate
