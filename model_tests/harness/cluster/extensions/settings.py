"""The action of settings on a cluster: an operator alters the topic, over the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from tidegauge.impl.client import topic_requests
from tidegauge.impl.metadata.config_resources import AlterOperation, ConfigResourceType
from tidegauge.impl.wire.primitives import i8
from tidegauge.model_tests.harness.cluster.binding import TOPIC, ClusterBinding
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cores.extensions.settings import texts
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication.extensions.settings import ChangeSettings
from tidegauge.spec.replication.state import State


async def change_settings(binding: ClusterBinding, action: ChangeSettings, before: State) -> None:
    changes = tuple(
        AlterableConfig(name=name, config_operation=i8(AlterOperation.SET), value=value)
        for name, value in texts(action).items()
    )
    resource = AlterConfigsResource(resource_type=i8(ConfigResourceType.TOPIC), resource_name=TOPIC, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    response = await ask_at(binding.cluster, binding.cluster.controller.address, request)
    topic_requests.check(response, "the settings were refused")


STEPS: Final[Mapping[type[Action], Callable[[ClusterBinding, Any, State], Awaitable[None]]]] = {
    ChangeSettings: change_settings,
}
