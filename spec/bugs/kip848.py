"""The variants of the published KIP-848 models as bugs: one rule of each version missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.published.kip848 import variants
from tidegauge.spec.published.kip848.machine import FirstKip848, Kip848

_MODELS: Final[Mapping[type[Kip848], Kip848]] = {
    variants.AssignBeforeRevoke: Kip848(),
    variants.RevokeWithoutAcknowledgement: Kip848(),
    variants.FencedKeepsAssignment: Kip848(max_perturbations=1),
    variants.FirstAssignBeforeRevoke: FirstKip848(),
    variants.FirstRevokeWithoutAcknowledgement: FirstKip848(),
    variants.FirstFencedKeepsAssignment: FirstKip848(max_perturbations=1),
}


def _bug(variant: type[Kip848]) -> Bug[Kip848]:
    told = " ".join((variant.__doc__ or "").split())
    return Bug(
        name=variant.__name__,
        title=told.rpartition(": ")[0] or told.rstrip("."),
        reference="github.com/Vanlightly/kafka-tlaplus",
        mechanism=told,
        violates=("NoDoubleClientAssignment", "ValidMemberEpoch"),
        buggy=variant,
        model=_MODELS[variant],
    )


KIP848_BUGS: Final[Mapping[str, Bug[Kip848]]] = {variant.__name__: _bug(variant) for variant in _MODELS}
"""By class name."""
