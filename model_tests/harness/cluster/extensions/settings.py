"""Settings on a cluster: an operator alters the topic, over the wire; brokers go by what they were told."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.metadata.config_resources import AlterOperation, ConfigResourceType
from tidegauge.impl.metadata.topic_configs import MIN_INSYNC_REPLICAS
from tidegauge.impl.wire.primitives import i8
from tidegauge.model_tests.harness.cluster.binding import TOPIC, ClusterBinding, ClusterExtension
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cores.extensions.settings import texts, with_known_setting, with_settings
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.extensions.settings import ChangeSettings, KnownSettings, Settings
from tidegauge.spec.replication.state import Controller, Replica, State


async def change_settings(binding: ClusterBinding, action: ChangeSettings, before: State) -> None:
    changes = tuple(
        AlterableConfig(name=name, config_operation=i8(AlterOperation.SET), value=value)
        for name, value in texts(action).items()
    )
    resource = AlterConfigsResource(resource_type=i8(ConfigResourceType.TOPIC), resource_name=TOPIC, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    response = await ask_at(binding.cluster, binding.cluster.controller.address, request)
    for altered in response.responses:
        if altered.error_code is not ErrorCode.none:
            raise KafkaError(altered.error_code, altered.error_message or "the settings were refused")


STEPS: Final = Steps[ClusterBinding, [State], Awaitable[None]](
    on(ChangeSettings, change_settings),
)


class SettingsOnCluster(ClusterExtension):
    """Settings of the topic that change."""

    extends = Settings
    steps = STEPS

    def controller(self, seen: Controller) -> Controller:
        return with_settings(seen, self.binding.cluster.controller.controller, TOPIC)

    def replica(self, number: int, beside: Replica, seen: Replica) -> Replica:
        hosted = self.binding.hosted(number)
        if hosted is not None:
            return with_known_setting(seen, hosted.replica)
        if not seen.running or self.binding.told(number) is None:
            return seen
        configs = self.binding.broker(number).metadata.image.topics[TOPIC].configs
        return with_part(seen, KnownSettings(int(configs[MIN_INSYNC_REPLICAS])))
