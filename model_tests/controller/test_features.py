"""Levels of features: all of a request are in force, or none, and what is only checked changes nothing."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.features import FeaturesUpdated, FeatureUpdate
from tidegauge.impl.metadata.features import FEATURES, GROUP_VERSION, TRANSACTION_VERSION
from tidegauge.impl.metadata.records import FeatureLevelRecord
from tidegauge.model_tests.controller.controlled_cluster import ControlledCluster

UPGRADE, SAFE, UNSAFE = 1, 2, 3
LOWER = FeatureUpdate(TRANSACTION_VERSION, 1, SAFE)


def updated(cluster: ControlledCluster, *updates: FeatureUpdate, only_checks: bool = False) -> FeaturesUpdated:
    return cluster.commit(cluster.controller.features.update(updates, validate_only=only_checks))


def levels(cluster: ControlledCluster) -> tuple[int, int]:
    """Of transactions and of groups, as the next controller would know them too."""
    end, image = cluster.log.end_offset, cluster.controller.image
    assert image.offset == end
    return image.feature_level(TRANSACTION_VERSION), image.feature_level(GROUP_VERSION)


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_a_level_goes_down_and_up_again(kind: int) -> None:
    cluster = ControlledCluster()
    assert updated(cluster, FeatureUpdate(TRANSACTION_VERSION, 0, kind), FeatureUpdate(GROUP_VERSION, 0, kind)) == (
        FeaturesUpdated()
    )
    assert levels(cluster) == (0, 0)
    assert updated(cluster, FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE)).error is ErrorCode.none
    assert levels(cluster) == (2, 0)


def test_only_a_level_that_changes_is_written() -> None:
    cluster = ControlledCluster()
    end = cluster.log.end_offset
    updated(cluster, LOWER, FeatureUpdate(GROUP_VERSION, 1, UPGRADE), LOWER)
    assert cluster.log.read(end) == [FeatureLevelRecord(TRANSACTION_VERSION, 1)]


def test_what_is_only_checked_changes_nothing() -> None:
    cluster = ControlledCluster()
    assert updated(cluster, LOWER, only_checks=True) == FeaturesUpdated()
    assert levels(cluster) == (2, 1)
    wrong = FeatureUpdate(TRANSACTION_VERSION, 3, UPGRADE)
    assert updated(cluster, wrong, only_checks=True) == updated(cluster, wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (FeatureUpdate(GROUP_VERSION, 0, 0), "upgrade type 0 is none"),
        (FeatureUpdate(GROUP_VERSION, 0, 4), "upgrade type 4 is none"),
        (FeatureUpdate("none.version", 1, UPGRADE), "'none.version' is no feature"),
        (FeatureUpdate("metadata.version", 29, SAFE), "metadata.version is at level 30 and stays there"),
        (FeatureUpdate(TRANSACTION_VERSION, 3, UPGRADE), "transaction.version has levels 0 to 2, not 3"),
        (FeatureUpdate(TRANSACTION_VERSION, -1, SAFE), "transaction.version has levels 0 to 2, not -1"),
        (FeatureUpdate(GROUP_VERSION, 0, UPGRADE), "0 is a downgrade"),
        (FeatureUpdate(TRANSACTION_VERSION, 2, SAFE), "2 is an upgrade"),
    ],
)
def test_one_wrong_level_refuses_all(wrong: FeatureUpdate, words: str) -> None:
    cluster = ControlledCluster()
    updated(cluster, LOWER)
    end = cluster.log.end_offset
    found = updated(cluster, FeatureUpdate(TRANSACTION_VERSION, 0, SAFE), wrong)
    assert found.error is ErrorCode.invalid_update_version
    assert words in found.message
    assert cluster.log.end_offset == end


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
def test_the_level_that_is_in_force_may_be_asked_for_in_any_way(name: str, kind: int) -> None:
    cluster = ControlledCluster()
    assert updated(cluster, FeatureUpdate(name, FEATURES[name].default, kind)) == FeaturesUpdated()
