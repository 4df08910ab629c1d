"""A mutant is put in place in the memory of a process: every function that has the code gets the mutant's.

So a mutant costs one compilation, and neither a file nor an import. It is for a process that ends with the mutant:
there is no way back. Classes made of others (`attrs`, subclasses in tests) share their functions, and so get it too.
"""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import attrs

from tidegauge.model_tests.mutants.operators import Function, SourceModule

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = "tidegauge"
_OWN: Final = __name__.rpartition(".")[0]
"""The package whose functions remember the mutants: to forget all of them takes as long as a short part."""

Key = tuple[str, str, int]
"""By which a function's code is known: module, qualified name, first line."""
_LOOKED_FOR: Final = {FunctionType, functools._lru_cache_wrapper}
"""Types of objects. Neither has a subclass here, and there are millions of objects."""


@functools.cache
def source_module(path: str) -> SourceModule:
    """The module at this path, from the root of the repository; it is imported, and parsed once."""
    name = f"{PACKAGE}.{path.removesuffix('.py').replace('/', '.')}"
    file = import_module(name).__file__
    assert file is not None
    return SourceModule(name, path, ast.parse((ROOT / path).read_text("utf-8"), path), file)


@attrs.frozen(eq=False)
class Patcher:
    """The functions of some modules, as they are in memory."""

    functions: Mapping[Key, tuple[FunctionType, ...]]
    paths: tuple[str, ...]
    """Of their files, from the root."""
    caches: tuple[Any, ...]
    """What functions of this project have remembered, perhaps without the mutant; not what remembers the mutants."""

    def install(self, function: Function, code: CodeType) -> None:
        """Give every function that has this code the other one, and forget what it has returned."""
        found = self.functions.get(function.key, ())
        if not found:
            raise LookupError(f"{function.module.path} {function.qualname} is not in memory: nothing imports it")
        for one in found:
            one.__code__ = code
        self.forget()

    def forget(self) -> None:
        """Forget what functions have remembered."""
        for remembered in self.caches:
            remembered.cache_clear()


def patcher_of(modules: Iterable[SourceModule]) -> Patcher:
    """Look for the functions of these modules among all objects. What is imported later is not among them."""
    among = {module.path: module for module in modules}
    names = {module.file: module.name for module in among.values()}
    found: dict[Key, list[FunctionType]] = {}
    caches: list[Any] = []
    gc.unfreeze()  # what a worker of a pool has frozen is not among the objects
    for one in [each for each in gc.get_objects() if type(each) in _LOOKED_FOR]:
        if isinstance(one, functools._lru_cache_wrapper):
            if (one.__module__ or "").startswith(PACKAGE) and not one.__module__.startswith(_OWN):
                caches.append(one)
        elif one.__code__.co_filename in names:
            found.setdefault(key_of(one.__code__, names), []).append(one)
    gc.freeze()  # else a child copies all of it when it looks for garbage
    return Patcher({key: tuple(functions) for key, functions in found.items()}, tuple(among), tuple(caches))


def key_of(code: CodeType, names: Mapping[str, str]) -> Key:
    """The key of a code in one of the files."""
    return names[code.co_filename], code.co_qualname, code.co_firstlineno
