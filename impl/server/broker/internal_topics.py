"""Internal topics: coordinators keep their logs in them. Each is created when somebody first needs its coordinator.

A topic is made as the settings say. Where fewer brokers live than it needs replicas, it is not made, and is asked for
again with the next request.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import TopicName, i16, i32, millis

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic

    from tidegauge.impl.server.broker.controller_link import ControllerLink
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
    from tidegauge.impl.server.settings.server_config import ServerConfig

LOGGER: Final = logging.getLogger(__name__)
BY_DEFAULT: Final = -1
"""Partitions or replicas of a topic whose creator leaves their number to the cluster."""


class InternalTopic(NamedTuple):
    """An internal topic as it is to be made."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def internal_topic(name: str, config: ServerConfig) -> InternalTopic | None:
    """What the settings say of an internal topic; None for one that nobody needs here, and for any other topic."""
    if name == TRANSACTION_STATE:
        return InternalTopic(
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == CONSUMER_OFFSETS:
        return InternalTopic(
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    return None


def creatable(name: str, config: ServerConfig) -> CreatableTopic:
    """A topic that nobody has created yet, as a broker has it created: by its settings."""
    from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig

    wanted = internal_topic(name, config) or InternalTopic(BY_DEFAULT, BY_DEFAULT, {})
    return CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(wanted.partitions),
        replication_factor=i16(wanted.replication_factor),
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in wanted.configs.items()),
    )


class InternalTopics:
    """Has the controller create internal topics."""

    def __init__(
        self, metadata: MetadataCache, controller: ControllerLink, loader: MetadataLoader, config: DynamicConfig
    ) -> None:
        self._metadata = metadata
        self._controller = controller
        self._loader = loader
        self._config = config
        self._creating = trio.Lock()
        self._lines = RepeatedLines(most=1)

    async def require(self, name: str) -> str:
        """Have the topic, which is an internal one; why there is none, "" where this broker knows it now."""
        if name in self._metadata.image.topics:
            return ""
        async with self._creating:
            if name not in self._metadata.image.topics and (problem := await self._create(name)):
                self._lines.log_event(
                    LOGGER,
                    logging.WARNING,
                    "internal topic not created",
                    topic=name,
                    why=problem,
                    next="its coordinator is not available until a client asks again and there are enough brokers",
                )
                return problem
        return "" if name in self._metadata.image.topics else f"this broker does not know {name} yet"

    async def _create(self, name: str) -> str:
        from kio.schema.create_topics.v7.request import CreateTopicsRequest

        config = self._config.current
        request = CreateTopicsRequest(
            topics=(creatable(name, config),), timeout=millis(config.controller_quorum_request_timeout_ms)
        )
        try:
            response = await self._controller.forward(request)
        except (UnreachableError, NoResponseError) as error:
            return str(error)
        await self._loader.learn()
        (result,) = response.topics
        if result.error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
            return ""
        return f"{result.error_code.name.upper()}: {result.error_message or 'the controller gave no reason'}"
