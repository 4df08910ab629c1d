"""Functions that numba compiles, and keeps in files, for as long as nothing changes that is compiled into them.

Numba keeps code until the very file of its function changes. A function of another file that it calls is compiled into
it, and so is the value of each constant that it names: an edit there would leave the former code in use.

What is kept only saves time. A file of it that is damaged, or that no disk has room for, is as none: the function is
compiled again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from types import ModuleType
from typing import Any, Final

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import is_jitted

__all__ = ["compiled_and_kept"]

_PLAIN: Final = (bool, int, float, str, bytes, np.generic)


def compiled_and_kept(**options: Any) -> Any:
    """A decorator: numba's `njit` with these options, which compiles anew after each change of what the code is of.

    That is the function's own file, and all that its module has imported: functions that are compiled, with all that
    those are of; constants; and what other modules of the same package have of both.
    """

    def decorated(function: Callable[..., Any]) -> Any:
        made: Any = njit(**options)(function)
        if not is_jitted(made):  # numba may be told to compile nothing
            return made
        with suppress(RuntimeError):  # numba finds no folder where it may write
            kept: Any = _KeptCode(function)
            used = sorted(_used(function.__globals__, function.__module__.partition(".")[0], set()))
            of = kept._cache_file._source_stamp, sorted(options.items()), used
            kept._cache_file._source_stamp = sha256(repr(of).encode()).hexdigest()
            vars(made)["_cache"] = kept
        return made

    return decorated


class _KeptCode(FunctionCache):
    """Compiled code in sealed files. Where none can be written, nothing is kept."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp, base = self._cache_file._source_stamp, self._impl.filename_base
        self._cache_file = _SealedFiles(self._cache_path, base, stamp)  # type: ignore[no-untyped-call]

    def _save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super()._save_overload(sig, data)  # type: ignore[no-untyped-call]


class _SealedFiles(IndexDataCacheFile):
    """Files whose content has a checksum beside it, without which nothing is taken from them."""

    def _save_index(self, overloads: Any) -> None:
        super()._save_index(self._sealed(overloads))  # type: ignore[no-untyped-call]

    def _load_index(self) -> Any:
        try:
            found = super()._load_index()  # type: ignore[no-untyped-call]
            return _content_of(found) if found else {}
        except Exception:  # damage may lead a pickle to raise anything
            return {}

    def _save_data(self, name: str, data: Any) -> None:
        super()._save_data(name, self._sealed(data))  # type: ignore[no-untyped-call]

    def _load_data(self, name: str) -> Any:
        try:
            return _content_of(super()._load_data(name))  # type: ignore[no-untyped-call]
        except Exception as error:
            raise OSError(f"{name} is damaged") from error  # numba takes it as gone

    def _sealed(self, content: Any) -> tuple[bytes, bytes]:
        packed: bytes = self._dump(content)  # type: ignore[no-untyped-call]
        return packed, sha256(packed).digest()


def _content_of(sealed: tuple[bytes, bytes]) -> Any:
    packed, checksum = sealed
    if sha256(packed).digest() != checksum:
        raise ValueError("it is damaged")
    return pickle.loads(packed)


def _stamp_of(made: Any) -> str:
    """Under what numba keeps compiled code. Raises RuntimeError where it is not kept, so that no caller is."""
    file = getattr(made._cache, "_cache_file", None)
    if file is None:
        raise RuntimeError(f"{made} is not kept")
    return str(file._source_stamp)


def _used(names: Mapping[str, Any], package: str, seen: set[ModuleType]) -> Iterator[tuple[str, str]]:
    """Each name of a module that means a constant or compiled code, and what tells its value from any other."""
    for name, value in names.items():
        if name.startswith("__"):
            continue
        if is_jitted(value):
            yield name, _stamp_of(value)
        elif isinstance(value, np.ndarray):
            yield name, repr((value.dtype, value.shape, value.tobytes()))
        elif _is_constant(value):
            yield name, repr(value)
        elif isinstance(value, ModuleType) and value not in seen and value.__name__.partition(".")[0] == package:
            seen.add(value)
            yield from _used(vars(value), package, seen)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return value is None or isinstance(value, _PLAIN)
