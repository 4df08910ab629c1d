"""Changes of features' levels: which are valid, and the records that write them (KIP-584, KIP-778)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.metadata.features import FEATURES
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import FeatureLevelRecord

UPGRADE: Final = 1
UPGRADE_TYPES: Final = (UPGRADE, 2, 3)
"""Upgrade, safe downgrade, unsafe downgrade (KIP-778)."""


class FeatureUpdate(NamedTuple):
    """A level that somebody wants for a feature."""

    name: str
    level: int
    upgrade_type: int


class FeaturesUpdated(NamedTuple):
    """The outcome of a request; `message` says what is wrong with it."""

    error: ErrorCode = ErrorCode.none
    message: str = ""


class Features:
    """Decides which levels are in force."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def update(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> Proposal[FeaturesUpdated]:
        """All of these levels, or none of them. Errors: INVALID_UPDATE_VERSION."""
        decision = Decision(self._image)
        problem = next((wrong for update in updates if (wrong := self._problem(update))), "")
        if problem:
            return decision.propose(FeaturesUpdated(ErrorCode.invalid_update_version, problem))
        for update in updates:
            if not validate_only and decision.image.feature_level(update.name) != update.level:
                decision.write(FeatureLevelRecord(update.name, update.level))
        return decision.propose(FeaturesUpdated())

    def _problem(self, update: FeatureUpdate) -> str:
        name, level = update.name, update.level
        if update.upgrade_type not in UPGRADE_TYPES:
            return f"upgrade type {update.upgrade_type} is none: use 1 (upgrade), 2 (safe) or 3 (unsafe downgrade)"
        feature = FEATURES.get(name)
        if feature is None:
            return f"{name!r} is no feature of this cluster; there are {', '.join(FEATURES)}"
        current = self._image.feature_level(name)
        if level != current and not feature.is_changeable:
            return f"{name} is at level {current} and stays there, not {level}"
        if not feature.lowest <= level <= feature.highest:
            return f"{name} has levels {feature.lowest} to {feature.highest}, not {level}"
        if level < current and update.upgrade_type == UPGRADE:
            return f"{name} is at level {current}: {level} is a downgrade, which has upgrade type 2 or 3"
        if level > current and update.upgrade_type != UPGRADE:
            return f"{name} is at level {current}: {level} is an upgrade, which has upgrade type 1"
        return ""
