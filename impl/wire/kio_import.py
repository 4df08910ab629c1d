"""kio, imported without Hypothesis: that would be half of what it takes to start a cluster.

Where Hypothesis is installed, kio imports it to register strategies for its primitive types: some 250 ms, in programs
that want a broker and draw nothing. `impl` therefore imports the one module of kio that looks for Hypothesis while, for
this thread and this import only, a finder on `sys.meta_path` says that there is none; kio then does what it does where
Hypothesis is not installed. If Hypothesis was imported before, kio has its strategies.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

HYPOTHESIS = "hypothesis"
LOOKS_FOR_HYPOTHESIS = "kio.static._phantom"


class NoHypothesis(MetaPathFinder):
    """Finds nothing, and lets nobody else find Hypothesis, in the thread that made it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == HYPOTHESIS and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{HYPOTHESIS} is left out while kio is imported", name=HYPOTHESIS)
        return None


def import_kio() -> None:
    """Import the module of kio that would import Hypothesis, unless that has been imported anyway."""
    if HYPOTHESIS in sys.modules or LOOKS_FOR_HYPOTHESIS in sys.modules:
        return
    finder = NoHypothesis()
    sys.meta_path.insert(0, finder)
    try:
        import_module(LOOKS_FOR_HYPOTHESIS)
    finally:
        sys.meta_path.remove(finder)
