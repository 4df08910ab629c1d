"""kio, imported without Hypothesis: that would be half of what it takes to start a cluster.

Where Hypothesis is installed, kio imports it to register strategies for its primitive types: some 250 ms, in programs
that want a broker and draw nothing. One module of kio looks for Hypothesis. It is imported here while `sys.modules` has
None for Hypothesis, Python's mark of a module that is not there; that takes less than a millisecond. A program that has
imported Hypothesis before gets kio with its strategies.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

HYPOTHESIS: Final = "hypothesis"
LOOKS_FOR_HYPOTHESIS: Final = "kio.static._phantom"


@contextmanager
def without_hypothesis() -> Iterator[None]:
    """No import finds Hypothesis meanwhile, unless it has been imported."""
    modules: dict[str, Any] = sys.modules
    if HYPOTHESIS in modules:
        yield
        return
    modules[HYPOTHESIS] = None
    try:
        yield
    finally:
        del modules[HYPOTHESIS]


def import_kio() -> None:
    """Import the module of kio that looks for Hypothesis."""
    import_module("kio.static")
    with without_hypothesis():
        import_module(LOOKS_FOR_HYPOTHESIS)
