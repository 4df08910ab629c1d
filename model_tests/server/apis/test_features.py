"""Features over the wire: levels that are raised, lowered and refused."""

from __future__ import annotations

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from tidegauge.impl.wire.apis import request_class
from tidegauge.impl.wire.primitives import i8, i16, millis
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.server.asking import asking
from tidegauge.model_tests.simulated import simulated


def feature(name: str, level: int) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=name, max_version_level=i16(level))
    return UpdateFeaturesRequest(timeout=millis(1_000), feature_updates=(update,))


@pytest.mark.parametrize(
    ("name", "level", "error"),
    [
        ("metadata.version", 30, ErrorCode.none),
        ("metadata.version", 29, ErrorCode.invalid_update_version),
        ("transaction.version", 2, ErrorCode.none),
        ("transaction.version", 3, ErrorCode.invalid_update_version),
        ("transaction.version", 1, ErrorCode.invalid_update_version),
    ],
)
@simulated
async def test_a_level_in_force_may_be_asked_for_and_none_that_is_not_supported(
    name: str, level: int, error: ErrorCode
) -> None:
    async with asking() as (_, peer):
        response = await peer.ask(feature(name, level))
        assert response.error_code is error
        assert bool(response.error_message) == (error is not ErrorCode.none)


@simulated
async def test_a_level_is_lowered_and_raised_and_told_to_clients_and_after_a_restart() -> None:
    async with asking() as (cluster, peer):

        async def change(level: int, kind: int) -> ErrorCode:
            update = FeatureUpdateKey(
                feature="transaction.version", max_version_level=i16(level), upgrade_type=i8(kind)
            )
            request = UpdateFeaturesRequest(timeout=millis(1_000), feature_updates=(update,))
            error: ErrorCode = (await peer.ask(request)).error_code
            return error

        async def told() -> int:
            response = await peer.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"))
            levels = {one.name: one.max_version_level for one in response.finalized_features}
            return int(levels.get("transaction.version", 0))

        assert await change(1, kind=1) is ErrorCode.invalid_update_version, "that is no upgrade"
        for level, kind in ((1, 2), (0, 3), (2, 1)):
            assert await change(level, kind) is ErrorCode.none
            assert await told() == level
        assert await change(1, kind=2) is ErrorCode.none
        await cluster.restart_controller()
        assert cluster.controller.controller.image.feature_level("transaction.version") == 1


@simulated
async def test_an_upgrade_of_a_type_that_is_none_is_refused() -> None:
    async with asking() as (_, peer):
        update = FeatureUpdateKey(feature="metadata.version", max_version_level=i16(30), upgrade_type=i8(0))
        response = await peer.ask(UpdateFeaturesRequest(timeout=millis(1_000), feature_updates=(update,)))
        assert response.error_code is ErrorCode.invalid_update_version
        assert "upgrade type 0" in response.error_message


@simulated
async def test_older_versions_are_told_of_each_feature_that_was_updated() -> None:
    async with asking() as (_, peer):
        for version in (0, 1):
            response = await peer.ask(convert(feature("metadata.version", 30), request_class(57, version)))
            assert [(one.feature, one.error_code) for one in response.results] == [("metadata.version", ErrorCode.none)]
            assert response.results[0].error_message == "NONE"
            refused = await peer.ask(convert(feature("metadata.version", 29), request_class(57, version)))
            assert (refused.error_code, refused.results) == (ErrorCode.invalid_update_version, ())
