"""A broker's connections to the active controller: registration, heartbeats, metadata, ISR proposals, forwarding.

There are three connections, so that no request waits behind another: one for metadata fetches, which the controller may
hold; one for ISR proposals; one for everything else. When another node is the active controller (`ActiveController`),
all three are opened anew, to that node.

An AlterPartition response does not name its controller. A controller therefore names its epoch when a connection is
opened (as the epoch of its finalized features), and a response counts as that controller's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Listener
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.codec import MetadataFormatError, check_decisions, decode_decisions
from tidegauge.impl.metadata.records import MetadataRecord
from tidegauge.impl.metadata.topic_names import METADATA_TOPIC_ID
from tidegauge.impl.partition.messages import (
    NO_EPOCH,
    AlterPartitionRequest,
    AlterPartitionResponse,
    FollowerFetch,
    PartitionFetchResponse,
)
from tidegauge.impl.ports.network import Address
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.server.broker.active_controller import ActiveController
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.pace import Pace
from tidegauge.impl.server.requests.reads import follower_request, partition_responses
from tidegauge.impl.wire.channel import Channel, Handshake, NoResponseError, UnreachableError
from tidegauge.impl.wire.error_codes import finding_error
from tidegauge.impl.wire.primitives import BrokerId, i16, i64, u16

if TYPE_CHECKING:
    from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
    from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse

    from tidegauge.impl.ports.network import Network
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.storage.log_directories import LogDirectories
    from tidegauge.impl.wire.fetch_messages import FetchResponse

LOGGER: Final = logging.getLogger(__name__)
METADATA_MAX_BYTES = 8 << 20
RECORD_UNITS = 8
"""Of work, as `impl.server.pace` counts it, to read a record of the metadata log."""


class ControllerLink:
    """One broker's connections to the controller."""

    def __init__(
        self,
        registration: Registration,
        directories: LogDirectories,
        tasks: BrokerTasks,
        network: Network,
        voters: Sequence[Address],
        *,
        login: Handshake,
        response_timeout_ms: float,
        metadata_timeout_ms: float,
    ) -> None:
        """`voters` are the nodes one of which is the active controller, at least one; `login` authenticates at it.

        `metadata_timeout_ms` is for metadata fetches, which the controller may hold.
        """
        self._registration = registration
        self._directories = directories
        self._tasks = tasks
        self._network = network
        self._login = login
        self._response_timeout_ms = response_timeout_ms
        self._metadata_timeout_ms = metadata_timeout_ms
        self._epoch = -1
        self._lines = RepeatedLines()
        self.active = ActiveController(voters)
        """Where these connections go."""
        self._connect()

    def _connect(self) -> None:
        network, address, tasks = self._network, self.active.address, self._tasks
        name, short_ms = f"broker-{self._registration.broker_id}", self._response_timeout_ms
        connect = partial(Channel, network, address, name, tasks)
        self._requests = connect(timeout_ms=short_ms, handshake=self._login)
        self._metadata = connect(timeout_ms=self._metadata_timeout_ms, handshake=self._login)
        self._proposals = connect(timeout_ms=short_ms, handshake=self._learn_epoch)

    def _follow(self) -> None:
        """Open connections to the active controller, unless these are. What was sent still gets its responses."""
        if self.active.address == self._requests.address:
            return
        for channel in (self._requests, self._metadata, self._proposals):
            self._tasks.start_soon(channel.aclose_when_idle)
        self._connect()

    async def _send(self, channel: Channel, request: Any) -> Any:
        """Raises UnreachableError or NoResponseError, and leaves that node."""
        with self._leaving(channel):
            return await channel.request(request)

    @contextmanager
    def _leaving(self, channel: Channel) -> Iterator[None]:
        """Leave the node at the other end when it cannot be reached or does not respond."""
        try:
            yield
        except (UnreachableError, NoResponseError):
            self.active.leave(channel.address)
            self._follow()
            raise

    async def _require_controller(self, response: Any, channel: Channel) -> None:
        """Raises NotControllerError for a response with NOT_CONTROLLER, and asks that node who is the controller."""
        if await Pace().finish(finding_error(response, ErrorCode.not_controller)):
            with suppress(UnreachableError, NoResponseError):
                await self._fetch_metadata(channel, 0, 0, 1)
            raise NotControllerError(channel.address)

    async def _learn_epoch(self, channel: Channel) -> None:
        await self._login(channel)
        request = ApiVersionsRequest(client_software_name="tidegauge", client_software_version="1")
        response = await channel.request_here(request)
        self._epoch = response.finalized_features_epoch

    async def forward(self, request: Any) -> Any:
        """Forward a request and return the controller's response. Raises UnreachableError or NoResponseError.

        A response with NOT_CONTROLLER, of the whole request or of one item, raises NotControllerError: a node that is
        not the controller gives it to all items.
        """
        channel = self._requests
        response = await self._send(channel, request)
        await self._require_controller(response, channel)
        return response

    @property
    def previous_broker_epoch(self) -> int:
        """What a registration says of the process before this one: its broker epoch, if it stopped cleanly, else -1."""
        return -1 if self._registration.is_registered else self._directories.stopped_cleanly_in

    async def register(self) -> int:
        """Register this process; returns its broker epoch.

        Raises UnreachableError, NoResponseError or RegistrationRefusedError.
        """
        registration, directories = self._registration, self._directories
        channel = self._requests
        response: BrokerRegistrationResponse = await self._send(
            channel,
            BrokerRegistrationRequest(
                broker_id=BrokerId(registration.broker_id),
                cluster_id=registration.cluster_id,
                incarnation_id=registration.incarnation_id,
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
            ),
        )
        await self._require_controller(response, channel)
        if response.error_code is not ErrorCode.none:
            raise RegistrationRefusedError(response.error_code, registration.broker_id, channel.address)
        return response.broker_epoch

    async def heartbeat(
        self, metadata_offset: int, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        """Say that this process lives, how much metadata it has, and whether it wants to stop.

        Raises UnreachableError or NoResponseError.
        """
        channel = self._requests
        response: BrokerHeartbeatResponse = await self._send(
            channel,
            BrokerHeartbeatRequest(
                broker_id=BrokerId(self._registration.broker_id),
                broker_epoch=i64(self._registration.broker_epoch),
                current_metadata_offset=i64(metadata_offset),
                want_fence=want_fence,
                want_shut_down=want_shut_down,
                offline_log_dirs=tuple(self._directories.offline_ids),
            ),
        )
        await self._require_controller(response, channel)
        return response

    async def metadata_since(
        self, offset: int, max_wait_ms: int, epoch: int = NO_EPOCH
    ) -> tuple[list[MetadataRecord], int]:
        """Records of the metadata log from `offset` on, and where it ends; none when there are none after the wait.

        `epoch` is that of the record before `offset`, if it is known. Raises UnreachableError or NoResponseError, that
        too for batches that are not intact: what a disk has changed may still look like metadata. A log that is another
        one than before ends the broker (`_refuse`).
        """
        response = await self._fetch_metadata(self._metadata, offset, max_wait_ms, METADATA_MAX_BYTES, epoch)
        batches = in_memory(response.records)
        try:
            check_decisions(batches, offset)
        except MetadataFormatError as error:
            self._lines.log_event(
                LOGGER,
                logging.ERROR,
                "metadata refused",
                offset=offset,
                why=str(error),
                next="the broker keeps the metadata that it has, and asks again",
            )
            raise NoResponseError(str(error)) from None
        decided = decode_decisions(batches, offset)
        records = [record async for _, record in Pace(is_ahead=True).each(decided, units=RECORD_UNITS)]
        return records, response.high_watermark

    async def metadata_end(self, offset: int, epoch: int = NO_EPOCH) -> int:
        """Where the metadata log ends now, asked by a broker that has it up to `offset`, in this epoch.

        Not by the metadata fetches' connection: the controller responds to the one that it holds there first.
        Raises UnreachableError or NoResponseError.
        """
        return (await self._fetch_metadata(self._requests, offset, 0, 1, epoch)).high_watermark

    async def _fetch_metadata(
        self, channel: Channel, offset: int, max_wait_ms: int, max_bytes: int, epoch: int = NO_EPOCH
    ) -> PartitionFetchResponse:
        fetch = FollowerFetch(
            replica_id=self._registration.broker_id,
            broker_epoch=self._registration.broker_epoch,
            leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
        )
        request = follower_request(
            [(METADATA_TOPIC_ID, 0, fetch)],
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            partition_max_bytes=max_bytes,
        )
        request.cluster_id = self._registration.cluster_id
        message: FetchResponse = await self._send(channel, request)
        if message.error_code is ErrorCode.inconsistent_cluster_id:
            self._refuse(wrong_cluster(channel.address, self._registration.cluster_id))
        if message.error_code is not ErrorCode.none:
            raise NoResponseError(f"the controller at {channel.address} responds {message.error_code.name}")
        response = partition_responses(message)[METADATA_TOPIC_ID, 0]
        if response.error is ErrorCode.not_leader_or_follower:
            self._redirect(message, response, channel.address)
            raise NotControllerError(channel.address)
        is_shorter = response.error is ErrorCode.none and response.high_watermark < offset
        if response.error is ErrorCode.offset_out_of_range or response.diverging_epoch is not None or is_shorter:
            self._refuse(
                f"the metadata log at {channel.address} is not the one that this broker has read up to offset {offset} "
                f"(epoch {epoch}): it ends at {response.high_watermark}, or has other records. It has lost decisions, "
                "so nothing is deleted that it does not know: put the controller's log back from a copy"
            )
        return response

    def _refuse(self, reason: str) -> NoReturn:
        """End the broker: it has nothing to do with such a controller."""
        self._tasks.halt(reason)
        raise UnreachableError(reason)

    def _redirect(self, message: FetchResponse, response: PartitionFetchResponse, address: Address) -> None:
        """Turn from the node at `address` to the leader that it names, or to the next voter."""
        endpoints = {node.node_id: Address(node.host, node.port) for node in message.node_endpoints}
        if response.leader in endpoints:
            self.active.redirect(response.leader_epoch, endpoints[response.leader])
        else:
            self.active.leave(address)
        self._follow()

    async def alter_partition(self, partition: Partition, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Ask for a new ISR. Raises UnreachableError or NoResponseError."""
        from tidegauge.impl.server.broker.alter_partition import core_response_of, wire_request_of

        channel = self._proposals
        with self._leaving(channel):
            await channel.connect()
        controller_epoch = self._epoch
        message = await self._send(channel, wire_request_of(partition.topic_id, partition.index, request))
        await self._require_controller(message, channel)
        return core_response_of(message, partition.replica.replicas, controller_epoch)


class NotControllerError(UnreachableError):
    """The request went to a node that is not the active controller: nothing was done."""

    def __init__(self, address: Address) -> None:
        super().__init__(f"{address} is not the active controller")


def wrong_cluster(address: Address, cluster_id: str) -> str:
    """Why a broker of this cluster ends at that controller."""
    return (
        f"INCONSISTENT_CLUSTER_ID: the controller at {address} is of another cluster than this broker, whose "
        f"directories belong to {cluster_id}. Nothing of them was deleted: start it with the controller of its cluster"
    )


class RegistrationRefusedError(Exception):
    """The controller does not accept this broker."""

    def __init__(self, error: ErrorCode, broker_id: int, address: Address) -> None:
        super().__init__(f"the controller at {address} refused broker {broker_id}: {error.name.upper()}")
        self.error = error
        self.broker_id = broker_id
        self.address = address
