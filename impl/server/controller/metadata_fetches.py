"""Brokers' fetches of the metadata log: committed records are sent, and a fetch at the end waits for the next ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from tidegauge.impl.partition.messages import PartitionFetchResponse
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.server.controller.observers import Observers
from tidegauge.impl.server.purgatory import Purgatory
from tidegauge.impl.server.requests.reads import PartitionRead, ReadOutcome, fetch_response, partition_reads
from tidegauge.impl.wire.fetch_messages import fetch_error
from tidegauge.impl.wire.produce_messages import NodeEndpoint

if TYPE_CHECKING:
    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.controller.metadata_log import ServedMetadataLog
    from tidegauge.impl.server.transport.context import RequestContext
    from tidegauge.impl.wire.fetch_messages import FetchRequest, FetchResponse

LOGGER: Final = logging.getLogger(__name__)
METADATA_KEY: Final = f"{METADATA_TOPIC}-0"


class MetadataFetches:
    """Reads the metadata log for brokers, and keeps the fetches that wait for it to grow."""

    def __init__(
        self, controller: Controller, decisions: Decisions, log: ServedMetadataLog, clock: Clock, cluster_id: str
    ) -> None:
        self.observers = Observers(clock)
        self._controller = controller
        self._decisions = decisions
        self._log = log
        self._cluster_id = cluster_id
        self._clock = clock
        self._refusals = RepeatedLines(trio.current_time)
        self._waiting: Purgatory[str] = Purgatory(clock)

    @property
    def end_offset(self) -> int:
        """The number of committed records."""
        return self._log.end_offset

    def wake(self) -> None:
        """The log has grown or has another leader: fetches that wait look again."""
        self._waiting.wake(METADATA_KEY)

    async def respond(self, request: FetchRequest, context: RequestContext) -> FetchResponse:
        """Everything from the fetch offset on; with nothing to send it waits up to the request's max_wait_ms.

        Errors: INCONSISTENT_CLUSTER_ID for a broker of another cluster; UNKNOWN_TOPIC_ID for any partition but that of
        the metadata log; NOT_LEADER_OR_FOLLOWER, with the leader's id, epoch and endpoint as far as they are known,
        from a node that does not lead the log (KIP-951); OFFSET_OUT_OF_RANGE for a broker that has read beyond the end
        of the log, and a diverging epoch for one that has read other records (KIP-595).
        """
        if request.cluster_id not in (None, self._cluster_id):
            self._refusals.log_event(
                LOGGER,
                logging.WARNING,
                "metadata fetch refused",
                broker=request.replica_id,
                cluster=request.cluster_id,
                why=f"this is cluster {self._cluster_id}",
                next="start the broker with the controller of its own cluster",
            )
            return fetch_error(request, ErrorCode.inconsistent_cluster_id)
        reads = tuple(partition_reads(request))
        if any(read.topic_id != METADATA_TOPIC_ID or read.partition != 0 for read in reads):
            unknown = PartitionFetchResponse(ErrorCode.unknown_topic_id)
            return fetch_response([ReadOutcome(read, unknown) for read in reads])
        if not self._leads:
            return await self._redirect(reads)
        for read in reads:
            self.observers.record_fetch(request.replica_id, read.offset, self._log.end_offset)

        def outcomes() -> list[ReadOutcome]:
            return [ReadOutcome(read, self._read(read)) for read in reads]

        def news() -> list[ReadOutcome] | None:
            found = outcomes()
            return found if not self._leads or any(one.response.has_news for one in found) else None

        found, wait_ms = news(), request.max_wait_ms
        if found is None and wait_ms > 0:
            seen, held_ms = self._waiting.wakes, self._clock.held_ms(wait_ms)
            found = await context.while_connected(
                lambda: self._waiting.until([METADATA_KEY], news, held_ms, since=seen)
            )
        if not self._leads:
            return await self._redirect(reads)
        return fetch_response(outcomes() if found is None else found)

    @property
    def _leads(self) -> bool:
        return self._log.leadership.leader_id == self._controller.node_id

    async def _redirect(self, reads: Sequence[PartitionRead]) -> FetchResponse:
        """Name the leader, and where it is reached, if it has written that."""
        await self._decisions.catch_up()
        leadership = self._log.leadership
        moved = PartitionFetchResponse(
            ErrorCode.not_leader_or_follower, leader=leadership.leader_id, leader_epoch=leadership.epoch
        )
        response = fetch_response([ReadOutcome(read, moved) for read in reads])
        if (leader := self._controller.image.controllers.get(leadership.leader_id)) is not None:
            response.node_endpoints = [NodeEndpoint(leader.controller_id, leader.host, leader.port)]
        return response

    def _read(self, read: PartitionRead) -> PartitionFetchResponse:
        end = self._log.end_offset
        if read.last_fetched_epoch >= 0:
            agreed = self._log.end_offset_for(read.last_fetched_epoch)
            if agreed.epoch != read.last_fetched_epoch or agreed.end_offset < read.offset:
                return PartitionFetchResponse(diverging_epoch=agreed, high_watermark=end)
        if read.offset > end:
            return PartitionFetchResponse(ErrorCode.offset_out_of_range, high_watermark=end)
        return PartitionFetchResponse(
            leader=self._log.leadership.leader_id,
            leader_epoch=self._log.leadership.epoch,
            high_watermark=end,
            log_start_offset=self._log.start_offset,
            records=self._log.read_batches(read.offset, read.max_bytes),
        )


async def handle_fetch(request: FetchRequest, context: RequestContext, *, fetches: MetadataFetches) -> FetchResponse:
    """A broker fetches the metadata log."""
    return await fetches.respond(request, context)
