"""The variants of the published models as bugs: a rule of theirs missing, or an older one in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.machine import Machine

M = TypeVar("M", bound=Machine[Any])


def variants_as_bugs(reference: str, shown: Mapping[type[M], tuple[M, *tuple[str, ...]]]) -> Mapping[str, Bug[M]]:
    """By class name. `shown` has, by variant, a model in which it shows, and what it violates there.

    A variant's docstring is its mechanism, and up to the colon its title.
    """
    bugs = {}
    for variant, (model, *violates) in shown.items():
        told = " ".join((variant.__doc__ or "").split())
        bugs[variant.__name__] = Bug(
            name=variant.__name__,
            title=told.partition(": ")[0].rstrip("."),
            reference=reference,
            mechanism=told,
            violates=tuple(violates),
            buggy=variant,
            model=model,
        )
    return bugs
