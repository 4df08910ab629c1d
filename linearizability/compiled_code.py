"""Loads code that numba compiles, where it is installed and the work is worth it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def load(name: str, operations: int, worth: int, worth_kept: int) -> ModuleType | None:
    """The module `name` if numba is there, and it is loaded, or `operations` are at least as many as are worth it.

    That is `worth`, for it may have to be compiled; or `worth_kept`, where what was compiled is kept.
    """
    if name not in sys.modules and operations < worth and not (worth_kept <= operations and is_kept(name)):
        return None
    try:
        return import_module(name)
    except (ImportError, RuntimeError):  # the latter where numba finds no place for what it has compiled
        return None


def is_kept(name: str) -> bool:
    """Whether what numba has compiled of the module `name` is kept beside it, and not older than its source."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return False
    source = Path(spec.origin)
    indexes = source.parent.glob(f"__pycache__/{source.stem}.*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in indexes)
