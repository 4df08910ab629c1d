"""One fetch of a follower: the request to the leader for some partitions, and each replica's part of the response.

The replicas' cores decide what to ask for and what a response means (`impl.partition`). A request without a response
takes its connection down (`impl.wire.channel`); the cores are told nothing then, and the next fetch asks the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.follower_sessions import FollowerSession
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker.replica_lines import extent_of, tell_truncation
from tidegauge.impl.server.broker.unfed_followers import PASSING, UnfedFollowers
from tidegauge.impl.server.requests.reads import partition_responses
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.fetch_messages import INITIAL_EPOCH, SESSIONLESS_EPOCH, FetchResponse

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.peers import Peers
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.trace.tracer import Tracer
    from tidegauge.impl.wire.channel import Channel


class Fetched(Enum):
    """What a fetch brought one partition."""

    RECORDS = "records"
    NO_RECORDS = "no records"
    ERROR = "an error: it must back off"


class FetchResult(NamedTuple):
    """What came of one request."""

    may_go_on: bool
    """Whether the next request may follow at once; else all partitions of this one must back off."""
    partitions: Sequence[tuple[Partition, Fetched]] = ()
    resting: Sequence[Partition] = ()
    """Those among `partitions` that the session asks for from now on without a word."""


FAILED: Final = FetchResult(may_go_on=False)
NOTHING_TO_FETCH: Final = FetchResult(may_go_on=True)


class FollowerFetches:
    """The fetches of one broker's followers."""

    def __init__(
        self,
        replicas: ReplicaManager,
        peers: Peers,
        registration: Registration,
        config: ServerConfig,
        *,
        clock: Clock,
        tracer: Tracer,
    ) -> None:
        self._replicas = replicas
        self._peers = peers
        self._registration = registration
        self._config = config
        self._clock = clock
        self._tracer = tracer
        self._unfed = UnfedFollowers()

    async def fetch(
        self,
        leader: int,
        partitions: Sequence[Partition],
        max_wait_ms: int,
        *,
        purpose: str = "",
        session: FollowerSession | None = None,
        may_rest: bool = False,
    ) -> FetchResult:
        """Send one request for these partitions, and apply its response.

        `purpose` chooses the connection (`Peers.channel`). Without `session` the request is outside of any session.
        `may_rest`: whether partitions may come to rest in it; none does with a trace, which has each fetch.
        """
        if (channel := await self._connected(leader, purpose)) is None:
            if session is not None:
                session.rouse_all()  # what rests would be asked for again at once: it has to back off
            return FAILED
        await self._clock.until_running()
        if session is not None:
            partitions = [*partitions, *session.rouse_other_epochs(self._registration.broker_epoch)]
        fetches, withheld = self._begin(leader, partitions)
        if not fetches and (session is None or not session.has_resting):
            return FetchResult(may_go_on=True, partitions=withheld) if withheld else NOTHING_TO_FETCH
        request = (session or FollowerSession()).request(
            [((partition.topic_id, partition.index), fetch) for partition, fetch in fetches],
            max_wait_ms=max_wait_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            partition_max_bytes=self._config.replica_fetch_max_bytes,
        )
        if session is None:
            request.session_epoch = SESSIONLESS_EPOCH
        try:
            message = await channel.request(request)
        except (NoResponseError, UnreachableError):
            if session is not None:
                session.end(keep_id=True)
            self._give_up(leader, fetches)
            return FAILED
        await self._clock.until_running()
        await trio.lowlevel.checkpoint_if_cancelled()  # a broker that has stopped has closed its logs
        responses = self._responses(message, session)
        if responses is None:
            self._give_up(leader, fetches)
            return FetchResult(may_go_on=request.session_epoch != INITIAL_EPOCH)
        fetches += self._named_from_rest(responses, session)
        fetched = withheld + [
            (partition, self._apply(leader, partition, fetch, responses, session)) for partition, fetch in fetches
        ]
        resting: list[Partition] = []
        if session is not None and may_rest and self._tracer.trace is None:
            resting = self._rest(leader, session, fetches)
        return FetchResult(may_go_on=True, partitions=fetched, resting=resting)

    async def _connected(self, leader: int, purpose: str) -> Channel | None:
        """The connection; None when the leader cannot be reached."""
        channel = self._peers.channel(leader, purpose)
        if channel is not None:
            try:
                await channel.connect()
            except UnreachableError:
                return None
        return channel

    @staticmethod
    def _named_from_rest(
        responses: dict[tuple[str, int], PartitionFetchResponse], session: FollowerSession | None
    ) -> list[tuple[Partition, FollowerFetch]]:
        """The fetches at rest that the leader has responded to."""
        if session is None or not session.has_resting:
            return []
        named = [resting for key in responses if (resting := session.rouse(key)) is not None]
        for resting in named:
            resting.partition.outstanding.append(resting.fetch)
        return [(resting.partition, resting.fetch) for resting in named]

    def _rest(
        self, leader: int, session: FollowerSession, fetches: Sequence[tuple[Partition, FollowerFetch]]
    ) -> list[Partition]:
        """Let partitions rest that would be asked for with the same fetch again; returns them."""
        epoch = self._registration.broker_epoch
        return [
            partition
            for partition, fetch in fetches
            if not partition.is_gone
            and partition.replica.leader == leader
            and session.is_taken((partition.topic_id, partition.index))
            and partition.replica.fetch_request(epoch) == fetch
            and session.rest((partition.topic_id, partition.index), partition, fetch)
        ]

    def _begin(
        self, leader: int, partitions: Sequence[Partition]
    ) -> tuple[list[tuple[Partition, FollowerFetch]], list[tuple[Partition, Fetched]]]:
        """The fetches that are outstanding from now on, and the partitions that fetch later.

        Those that changed during the connect are left out. A fetch tells the log start: where the disk has no room to
        write it down, it waits.
        """
        fetches: list[tuple[Partition, FollowerFetch]] = []
        withheld: list[tuple[Partition, Fetched]] = []
        self._replicas.flushes.write_log_starts(partitions)
        for partition in partitions:
            if partition.is_gone:
                continue
            if not partition.log.log_start_is_durable:
                withheld.append((partition, Fetched.ERROR))
                continue
            fetch = partition.replica.fetch_request(self._registration.broker_epoch)
            if fetch is None or partition.replica.leader != leader or partition.awaits_response():
                continue
            partition.outstanding.append(fetch)
            fetches.append((partition, fetch))
            if self._tracer.trace is not None:
                sent = trace.events.SendFetch
                self._tracer.replica(sent, *partition.key, partition.replica, source=leader, fetch=fetch)
        return fetches, withheld

    def _give_up(self, leader: int, fetches: Sequence[tuple[Partition, FollowerFetch]]) -> None:
        for partition, fetch in fetches:
            partition.outstanding.remove(fetch)
            if self._tracer.trace is not None and not partition.is_gone:
                given_up = trace.events.Disconnect
                self._tracer.replica(given_up, *partition.key, partition.replica, source=leader, fetch=fetch)

    def _responses(
        self, message: FetchResponse, session: FollowerSession | None
    ) -> dict[tuple[str, int], PartitionFetchResponse] | None:
        """The responses by (topic id, partition); None when the leader has refused the request for its session."""
        if session is None:
            return partition_responses(message)
        return session.receive(message, repeat=self._tracer.trace is not None)

    def _apply(
        self,
        leader: int,
        partition: Partition,
        fetch: FollowerFetch,
        responses: dict[tuple[str, int], PartitionFetchResponse],
        session: FollowerSession | None,
    ) -> Fetched:
        """Hand a replica its part of the response."""
        key = partition.topic_id, partition.index
        response = responses.get(key)
        partition.outstanding.remove(fetch)
        if response is None and session is not None and session.is_taken(key):
            return Fetched.NO_RECORDS  # the leader says what the replica knows
        if response is None:
            response = PartitionFetchResponse(ErrorCode.unknown_server_error)
        if partition.is_gone:
            return Fetched.NO_RECORDS
        had = extent_of(partition)
        try:
            accepted = partition.replica.receive_fetch_response(fetch, response, self._clock.now_ms())
            error = response.error
            reason = f"the leader responds {error.name}" if error not in PASSING else ""
        except RecordError as failure:
            accepted, error = False, self._replicas.storage_failed(partition, failure)
            reason = f"what the leader sent cannot be taken: {failure}"
        except OSError as failure:  # as good as lost: the next fetch goes on from what the log has taken of it
            self._replicas.storage_failed(partition, failure)
            if not partition.is_gone:
                self._trace_failure(leader, partition, fetch, response, is_changed=extent_of(partition)[:2] != had[:2])
            return Fetched.ERROR
        tell_truncation(partition, leader, had)
        if reason and not accepted:
            self._unfed.refused(partition, leader, reason, self._clock.steady_ms())
        elif response.records:
            self._unfed.fed(partition)
        if self._tracer.trace is not None and not partition.is_gone:
            self._tracer.log(
                trace.events.ReceiveFetchResponse,
                *partition.key,
                partition.replica,
                source=leader,
                fetch=fetch,
                outcome=trace.events.FetchOutcome.of(response, fetch),
                accepted=accepted,
            )
        self._replicas.carry_out(partition)
        if accepted and session is not None:
            session.take(key)
        if not accepted and error is not ErrorCode.none:
            return Fetched.ERROR
        return Fetched.RECORDS if response.records else Fetched.NO_RECORDS

    def _trace_failure(
        self,
        leader: int,
        partition: Partition,
        fetch: FollowerFetch,
        response: PartitionFetchResponse,
        *,
        is_changed: bool,
    ) -> None:
        """A disk has failed while a replica acted on a response, which is lost but for what the log has of it."""
        if self._tracer.trace is None:
            return
        if not is_changed:
            lost = trace.events.Disconnect
            self._tracer.replica(lost, *partition.key, partition.replica, source=leader, fetch=fetch)
            return
        taken, outcome = trace.events.TakeInPart, trace.events.FetchOutcome.of(response, fetch)
        self._tracer.log(
            taken, *partition.key, partition.replica, source=leader, fetch=fetch, outcome=outcome, accepted=True
        )
