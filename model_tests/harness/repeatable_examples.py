"""Hypothesis examples that depend on the test and the seed alone.

Hypothesis also draws constants that it finds in the source of every module of the project that is loaded. Which ones
are loaded depends on the tests that ran before in the same process, so the same seed would draw other examples in a
whole run than alone. `ignore_constants_of_modules` leaves those constants out.
"""

from __future__ import annotations

from typing import Any

from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

_NONE = Constants()


def ignore_constants_of_modules() -> None:
    """Draw no constants of loaded modules in this process from now on."""
    hypothesis: Any = providers  # private names, which Hypothesis does not export
    if hypothesis._get_local_constants is not _no_constants:
        hypothesis._get_local_constants = _no_constants
        hypothesis.CONSTANTS_CACHE.cache.clear()


def _no_constants() -> Constants:
    return _NONE
