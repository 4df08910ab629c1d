"""Loads code that numba compiles, where it is installed and the work is worth it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from tidegauge.linearizability.history import Operations

WORTH_COMPILED_CODE = 1 << 26
"""From so many operations on compiled code is loaded, if numba is installed; it takes 20 seconds to compile."""
WORTH_KEPT_CODE = 1 << 23
"""The same where what was compiled is kept from before: to load it takes half a second."""


_NAME = "tidegauge.linearizability.compiled"


@attrs.define
class Screened:
    """How many operations of logs this process has screened: of many small inputs it is worth loading code, too."""

    operations: int = 0


SCREENED = Screened()


def compiled(operations: int = 0) -> ModuleType | None:
    """The code for histories of a log, where numba is there, and it is loaded or worth the time that loading takes.

    That is decided by so many operations together with all that this process has screened before.
    """
    SCREENED.operations += operations
    return load(_NAME, SCREENED.operations, WORTH_COMPILED_CODE, WORTH_KEPT_CODE)


def is_loaded() -> bool:
    """Whether that code is loaded."""
    return _NAME in sys.modules


def expect(operations: int) -> None:
    """This process is to screen so many operations in all: whether code is worth loading is decided by that at once."""
    SCREENED.operations = max(SCREENED.operations, operations)


def columns(ops: Operations) -> tuple[npt.NDArray[Any], ...]:
    """The columns that it looks at, in its order; no offsets where they are contiguous."""
    offsets = np.zeros(0, np.int64) if ops.offsets is None else ops.offsets
    taken = (ops.kind, ops.outcome, ops.acks, ops.offset, ops.starts, ops.values, offsets, ops.high_watermark)
    return tuple(map(fixed, (*taken, ops.call, ops.returned)))


def fixed(column: Any) -> npt.NDArray[Any]:
    """The column as one that may not be written: code is compiled for such alone, and files are read as such."""
    kept: npt.NDArray[Any] = np.ascontiguousarray(column).view()
    kept.flags.writeable = False
    return kept


def load(name: str, operations: int, worth: int, worth_kept: int) -> ModuleType | None:
    """The module `name` if numba is there, and it is loaded, or `operations` are at least as many as are worth it.

    That is `worth`, for it may have to be compiled; or `worth_kept`, where what was compiled is kept.
    """
    if name not in sys.modules and operations < worth and not (worth_kept <= operations and is_kept(name)):
        return None
    try:
        return import_module(name)
    except ImportError:
        return None


def is_kept(name: str) -> bool:
    """Whether what numba has compiled of the module `name` is kept beside it, and not older than its source."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return False
    source = Path(spec.origin)
    indexes = source.parent.glob(f"__pycache__/{source.stem}.*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in indexes)
