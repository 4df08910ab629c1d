"""Functions that numba compiles, and keeps in files, for as long as nothing changes that is compiled into them.

Numba keeps code until the very file of its function changes. A function of another file that it calls is compiled into
it, and so is the value of each constant that it names: an edit there would leave the former code in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from types import ModuleType
from typing import Any, Final

import numpy as np
from numba import njit
from numba.extending import is_jitted

__all__ = ["compiled_and_kept"]

_PLAIN: Final = (bool, int, float, str, bytes, np.generic)


def compiled_and_kept(**options: Any) -> Any:
    """A decorator: numba's `njit` with these options, which compiles anew after each change of what the code is of.

    That is the function's own file, and all that its module has imported: functions that are compiled, with all that
    those are of; constants; and what other modules of the same package have of both.
    """

    def decorated(function: Callable[..., Any]) -> Any:
        made = njit(cache=True, **options)(function)
        if is_jitted(made):  # numba may be told to compile nothing
            file = _file_of(made)
            used = sorted(_used(function.__globals__, function.__module__.partition(".")[0], set()))
            file._source_stamp = sha256(repr((file._source_stamp, sorted(options.items()), used)).encode()).hexdigest()
        return made

    return decorated


def _file_of(made: Any) -> Any:
    """Where numba keeps what it has compiled of a function, under a stamp of what it is of."""
    return made._cache._cache_file


def _used(names: Mapping[str, Any], package: str, seen: set[ModuleType]) -> Iterator[tuple[str, str]]:
    """Each name of a module that means a constant or compiled code, and what tells its value from any other."""
    for name, value in names.items():
        if name.startswith("__"):
            continue
        if is_jitted(value):
            yield name, str(_file_of(value)._source_stamp)
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
