"""A broker's dealings with the controller: registration, heartbeats, metadata, ISR proposals, forwarded requests.

Three connections, so that none waits behind another: one for metadata fetches, which the controller may hold; one for
ISR proposals; one for everything else.

An AlterPartition answer does not say which controller gave it. A controller therefore names its epoch when a connection
is opened (as the epoch of its finalized features), and an answer counts as the controller's whose connection it came
on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Listener
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.codec import decode_decisions
from tidegauge.impl.metadata.records import MetadataRecord
from tidegauge.impl.metadata.topic_names import METADATA_TOPIC_ID
from tidegauge.impl.partition.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    FollowerFetch,
    PartitionFetchResponse,
)
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.server.broker.alter_partition import core_response_of, wire_request_of
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.reads import follower_request, partition_responses
from tidegauge.impl.wire.channel import Channel
from tidegauge.impl.wire.primitives import BrokerId, i16, i64, u16

if TYPE_CHECKING:
    from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
    from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse

    from tidegauge.impl.ports.network import Address, Network
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.storage.log_directories import LogDirectories

METADATA_MAX_BYTES = 8 << 20


class ControllerLink:
    """One broker's connections to the controller."""

    def __init__(
        self,
        registration: Registration,
        directories: LogDirectories,
        tasks: BrokerTasks,
        network: Network,
        address: Address,
        *,
        response_timeout_ms: float,
        metadata_timeout_ms: float,
    ) -> None:
        """`metadata_timeout_ms` is for metadata fetches, which the controller may hold."""
        self._registration = registration
        self._directories = directories
        self._epoch = -1
        name = f"broker-{registration.broker_id}"
        self._requests = Channel(network, address, name, tasks, timeout_ms=response_timeout_ms)
        self._metadata = Channel(network, address, name, tasks, timeout_ms=metadata_timeout_ms)
        self._proposals = Channel(
            network, address, name, tasks, timeout_ms=response_timeout_ms, handshake=self._learn_epoch
        )

    async def _learn_epoch(self, channel: Channel) -> None:
        request = ApiVersionsRequest(client_software_name="tidegauge", client_software_version="1")
        response = await channel.request_here(request)
        self._epoch = response.finalized_features_epoch

    async def forward(self, request: Any) -> Any:
        """Forward a client's request and return the response. Raises UnreachableError or NoResponseError."""
        return await self._requests.request(request)

    @property
    def previous_broker_epoch(self) -> int:
        """What a registration says of the process before this one: its broker epoch, if it stopped cleanly, else -1."""
        return -1 if self._registration.is_registered else self._directories.stopped_cleanly_in

    async def register(self) -> int:
        """Register this process; returns its broker epoch.

        Raises UnreachableError, NoResponseError or RegistrationRefusedError.
        """
        registration, directories = self._registration, self._directories
        response: BrokerRegistrationResponse = await self._requests.request(
            BrokerRegistrationRequest(
                broker_id=BrokerId(registration.broker_id),
                cluster_id=registration.cluster_id,
                incarnation_id=None,
                listeners=tuple(
                    Listener(
                        name=endpoint.listener,
                        host=endpoint.address.host,
                        port=u16(endpoint.address.port),
                        security_protocol=i16(endpoint.security_protocol),
                    )
                    for endpoint in registration.endpoints
                ),
                features=(),
                rack=registration.rack,
                log_dirs=tuple(directory.id for directory in directories.online),
                previous_broker_epoch=i64(self.previous_broker_epoch),
            )
        )
        if response.error_code is not ErrorCode.none:
            raise RegistrationRefusedError(response.error_code)
        return response.broker_epoch

    async def heartbeat(
        self, metadata_offset: int, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        """Say that this process lives, how much metadata it has, and whether it wants to stop.

        Raises UnreachableError or NoResponseError.
        """
        response: BrokerHeartbeatResponse = await self._requests.request(
            BrokerHeartbeatRequest(
                broker_id=BrokerId(self._registration.broker_id),
                broker_epoch=i64(self._registration.broker_epoch),
                current_metadata_offset=i64(metadata_offset),
                want_fence=want_fence,
                want_shut_down=want_shut_down,
                offline_log_dirs=tuple(self._directories.offline_ids),
            )
        )
        return response

    async def metadata_since(self, offset: int, max_wait_ms: int) -> tuple[list[MetadataRecord], int]:
        """Records of the metadata log from `offset` on, and where it ends; none when there are none after the wait.

        Raises UnreachableError or NoResponseError.
        """
        answer = await self._fetch_metadata(self._metadata, offset, max_wait_ms, METADATA_MAX_BYTES)
        records = [record for _, record in decode_decisions(in_memory(answer.records), offset)]
        return records, answer.high_watermark

    async def metadata_end(self, offset: int) -> int:
        """Where the metadata log ends now, asked by a broker that has it up to `offset`.

        Not by the metadata fetches' connection: the one that the controller holds there would be answered first.
        Raises UnreachableError or NoResponseError.
        """
        return (await self._fetch_metadata(self._requests, offset, 0, 1)).high_watermark

    async def _fetch_metadata(
        self, channel: Channel, offset: int, max_wait_ms: int, max_bytes: int
    ) -> PartitionFetchResponse:
        fetch = FollowerFetch(
            replica_id=self._registration.broker_id,
            broker_epoch=self._registration.broker_epoch,
            leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
        )
        request = follower_request(
            [(METADATA_TOPIC_ID, 0, fetch)],
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            partition_max_bytes=max_bytes,
        )
        return partition_responses(await channel.request(request))[METADATA_TOPIC_ID, 0]

    async def alter_partition(self, partition: Partition, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Ask for a new ISR. Raises UnreachableError or NoResponseError."""
        await self._proposals.connect()
        controller_epoch = self._epoch
        message = await self._proposals.request(wire_request_of(partition.topic_id, partition.index, request))
        return core_response_of(message, partition.replica.replicas, controller_epoch)


class RegistrationRefusedError(Exception):
    """The controller does not take this broker."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(f"the controller refused the registration: {error.name}")
        self.error = error
