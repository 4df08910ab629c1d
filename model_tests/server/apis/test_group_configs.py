"""Configurations of groups over the wire: described, altered, listed, and there after a restart."""

from __future__ import annotations

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

from tidegauge.impl.metadata.config_resources import AlterOperation
from tidegauge.impl.metadata.group_configs import GROUP_CONFIGS
from tidegauge.impl.server.apis.configs import MOST_GROUPS
from tidegauge.impl.server.settings.sources import ConfigSource
from tidegauge.impl.wire.primitives import i8
from tidegauge.model_tests.server.apis.test_configs import GROUP, alter, described, entry, places
from tidegauge.model_tests.server.asking import asker, asking
from tidegauge.model_tests.simulated import simulated

SESSION = "consumer.session.timeout.ms"


@simulated
async def test_every_setting_of_a_group_is_described_with_the_brokers_default() -> None:
    async with asking(config={"group.consumer.session.timeout.ms": 50_000}) as (_, peer):
        result = await described(peer, GROUP, "readers")
        assert [config.name for config in result.configs] == list(GROUP_CONFIGS)
        for config in result.configs:
            setting = GROUP_CONFIGS[config.name].setting
            wanted = "50000" if config.name == SESSION else setting.default_text
            assert (config.value, config.config_type, config.documentation) == (
                wanted,
                setting.kind,
                setting.documentation,
            )
            assert places(config) == [(config.name, wanted, ConfigSource.DEFAULT)]
            assert not config.read_only


@simulated
async def test_a_groups_own_setting_is_told_by_every_broker_and_after_a_restart() -> None:
    async with asking(brokers=2) as (cluster, peer):
        altered = await alter(peer, GROUP, "readers", (SESSION, AlterOperation.SET, " 50000"))
        assert (altered.error_code, altered.resource_name) == (ErrorCode.none, "readers")
        await cluster.settle_metadata()
        await cluster.restart_controller()
        for broker in (0, 1):
            other = await asker(cluster, broker)
            assert places(await entry(other, GROUP, "readers", SESSION)) == [(SESSION, "50000", ConfigSource.GROUP)]
            assert places(await entry(other, GROUP, "writers", SESSION)) == [(SESSION, "45000", ConfigSource.DEFAULT)]
        await alter(peer, GROUP, "readers", (SESSION, AlterOperation.DELETE, None))
        await cluster.settle_metadata()
        assert (await entry(peer, GROUP, "readers", SESSION)).config_source == ConfigSource.DEFAULT


@simulated
async def test_groups_with_settings_are_listed() -> None:
    async with asking() as (cluster, peer):
        for group in ("writers", "readers"):
            await alter(peer, GROUP, group, (SESSION, AlterOperation.SET, "50000"))
        await cluster.settle_metadata()
        listed = await peer.ask(ListConfigResourcesRequest(resource_types=(i8(GROUP),)))
        assert [(one.resource_name, one.resource_type) for one in listed.config_resources] == [
            ("readers", GROUP),
            ("writers", GROUP),
        ]


@simulated
async def test_the_brokers_bounds_hold_for_requests() -> None:
    async with asking(config={"group.consumer.max.session.timeout.ms": 50_000}) as (cluster, peer):
        refused = await alter(peer, GROUP, "readers", (SESSION, AlterOperation.SET, "50001"))
        assert refused.error_code is ErrorCode.invalid_config
        assert "it must be at most 50000" in refused.error_message
        assert cluster.controller.controller.image.group_configs == {}


@simulated
async def test_a_request_describes_so_many_groups_and_no_more() -> None:
    """A group need not exist: each name of a byte would have kilobytes in the response."""
    resources = tuple(
        DescribeConfigsResource(resource_type=i8(GROUP), resource_name=f"g{n}", configuration_keys=None)
        for n in range(MOST_GROUPS + 2)
    )
    async with asking() as (_, peer):
        response = await peer.ask(DescribeConfigsRequest(resources=resources))
        errors = [result.error_code for result in response.results]
        assert errors == [ErrorCode.none] * MOST_GROUPS + [ErrorCode.invalid_request] * 2
