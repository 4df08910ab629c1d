"""The variants of the published KIP-848 models as bugs: one rule of each version missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.published import variants_as_bugs
from tidegauge.spec.published.kip848 import variants
from tidegauge.spec.published.kip848.machine import FirstKip848, Kip848

KIP848_BUGS: Final[Mapping[str, Bug[Kip848]]] = variants_as_bugs(
    "github.com/Vanlightly/kafka-tlaplus",
    {
        variants.AssignBeforeRevoke: (Kip848(), "NoDoubleClientAssignment"),
        variants.RevokeWithoutAcknowledgement: (Kip848(), "ValidMemberEpoch"),
        variants.FencedKeepsAssignment: (Kip848(max_perturbations=1), "ValidMemberEpoch"),
    },
)
"""By class name."""
FIRST_KIP848_BUGS: Final[Mapping[str, Bug[FirstKip848]]] = variants_as_bugs(
    "github.com/Vanlightly/kafka-tlaplus",
    {
        variants.FirstAssignBeforeRevoke: (FirstKip848(), "NoDoubleClientAssignment"),
        variants.FirstRevokeWithoutAcknowledgement: (FirstKip848(), "ValidMemberEpoch"),
        variants.FirstFencedKeepsAssignment: (FirstKip848(max_perturbations=1), "ValidMemberEpoch"),
    },
)
"""By class name."""
