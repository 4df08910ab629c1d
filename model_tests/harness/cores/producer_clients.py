"""The producers' side of a lockstep of idempotent producers: their cores, and the messages on their way to them.

A subclass delivers requests: to cores, or to a cluster. Every response goes through `respond`, whether a producer still
waits for it or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.sequencing import AGAIN, COMPLETED, DesynchronisedError, InFlightBatch, Sequencing
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.storage.producer_snapshot import decode_snapshot
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.idempotence import producer as producing
from tidegauge.spec.idempotence import state as spec
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.changes import Change

_SENT_TO: Final = {AGAIN: spec.NONE, COMPLETED: spec.COMPLETED}


@attrs.define
class ProducerClient:
    """One producer: its core, which of its records each batch holds, and the leader that it knows."""

    core: Sequencing
    firsts: dict[int, int] = attrs.field(factory=dict)
    """id of a batch in line -> number of its first record."""
    next_record: int = 0
    leader: int = 0


class ProducerClients:
    """Producers, and the requests and responses between them and the brokers."""

    def __init__(self, machine: Idempotence, roles: Roles) -> None:
        self.machine = machine
        counted: dict[str, Any] = {"sequences": machine.sequences}
        self.states: type[ProducerStates] = type(
            "Counted", (roles.producers,), counted | {"batches_retained": machine.batches_retained}
        )
        """The class of replicas' producer states, with the model's constants."""
        sequencing: type[Sequencing] = type("Counted", (roles.sequencing,), counted)
        self.producers = [
            ProducerClient(sequencing(machine.max_in_flight, idempotent=machine.idempotent))
            for _ in range(machine.producers)
        ]
        self.requests: list[spec.ProduceRequest] = []
        self.responses: list[spec.ProduceResponse] = []
        self.acknowledged: set[spec.Acknowledged] = set()

    @property
    def leader(self) -> int:
        """The leader that the metadata name."""
        raise NotImplementedError

    # --- messages ----------------------------------------------------------------------------------------------

    def send(self, number: int, batch: InFlightBatch) -> None:
        """Send an attempt."""
        request = spec.ProduceRequest(self.batch(number, batch), batch.sent_to, batch.attempt)
        self.requests.append(request)
        if self.machine.reordering:
            self.requests.sort()

    def batch(self, number: int, batch: InFlightBatch) -> spec.Batch:
        first = self.producers[number].firsts[id(batch)]
        return spec.Batch(number, batch.epoch, batch.base_sequence, first, batch.count)

    def in_line(self, request: spec.ProduceRequest) -> InFlightBatch | None:
        """The batch that waits for a response to this attempt."""
        number = request.batch.producer
        for batch in self.producers[number].core.line:
            same = (self.batch(number, batch), batch.attempt, batch.sent_to)
            if same == (request.batch, request.attempt, request.broker):
                return batch
        return None

    def respond(self, request: spec.ProduceRequest, error: ErrorCode, offset: int = -1, repeated: bool = False) -> None:
        """A leader responds to an attempt; the producer may not wait for it any more."""
        if error is ErrorCode.none:
            self.acknowledged.add(spec.Acknowledged(offset, request.batch))
        response = spec.ProduceResponse(request, spec.Error(error.value), offset, repeated)
        if self.in_line(request) is not None and response not in self.responses:
            self.responses.append(response)

    def drop_responses(self, number: int, broker: int | None = None) -> None:
        self.responses = [
            r for r in self.responses if r.request.batch.producer != number or broker not in (None, r.request.broker)
        ]

    def disconnect(self, broker: int) -> None:
        """A broker is gone, with all connections to it and all that was in flight on them."""
        self.requests = [request for request in self.requests if request.broker != broker]
        for number, client in enumerate(self.producers):
            client.core.disconnected(broker)
            self.drop_responses(number, broker)

    # --- as the specification sees it ----------------------------------------------------------------------------

    def abstract_producers(self) -> tuple[spec.Producer, ...]:
        return tuple(self._producer(number, client) for number, client in enumerate(self.producers))

    def _producer(self, number: int, client: ProducerClient) -> spec.Producer:
        core = client.core
        line = tuple(
            spec.InFlight(self.batch(number, b), b.attempt, _SENT_TO.get(b.sent_to, b.sent_to), b.behind)
            for b in core.line
        )
        return spec.Producer(
            core.epoch, core.next_sequence, client.next_record, client.leader, line, core.desynchronised
        )

    def differences(self, state: spec.State) -> Iterator[Change]:
        """Where a producer would do what the specification forbids, or would not do what it allows."""
        for number, (producer, client) in enumerate(zip(state.producers, self.producers, strict=True)):
            core = client.core
            again = (
                f.sent_to != spec.NONE or self.machine.may_retry(producer, place)
                for place, f in enumerate(producer.in_flight)
            )
            wanted = (self.machine.may_send(producer), *again)
            found = (core.may_send(client.leader), *(b.sent_to != AGAIN or core.may_retry(b) for b in core.line))
            if found != wanted:
                yield Change(f"producers[{number}].choices", wanted, found)


def known_ends(replica: PartitionReplica, brokers: int) -> tuple[int, ...]:
    """How far a leader knows each broker to be; () for a replica that does not lead."""
    if not replica.is_leader:
        return ()
    ends = replica.remote_replicas
    return tuple(ends[b].log_end_offset if b in ends else spec.NONE for b in range(brokers))


def remembered(states: ProducerStates) -> spec.Producers:
    """The producer state of a replica."""
    return tuple(
        spec.ProducerEntry(entry.producer_id, entry.epoch, tuple(spec.BatchMetadata(*b[:3]) for b in entry.batches))
        for _, entry in sorted(states.entries.items())
    )


def snapshots_of(files: Mapping[int, bytes]) -> tuple[spec.Snapshot, ...]:
    """The contents of snapshot files, by their offsets."""
    found = []
    for offset, content in sorted(files.items()):
        states = ProducerStates()
        states.restart(decode_snapshot(content) or (), 0, 0)
        found.append(spec.Snapshot(offset, remembered(states)))
    return tuple(found)


# --- one action of a producer = one function -------------------------------------------------------------------------


def send(clients: ProducerClients, action: producing.Send, before: spec.State) -> None:
    client = clients.producers[action.producer]
    assert client.core.may_send(client.leader), "the producer would not send now"
    batch = client.core.send(action.count, client.leader)
    client.firsts[id(batch)] = client.next_record
    client.next_record += action.count
    clients.send(action.producer, batch)


def retry(clients: ProducerClients, action: producing.Retry, before: spec.State) -> None:
    client = clients.producers[action.producer]
    batch = client.core.line[action.place]
    assert client.core.may_retry(batch), "the producer would not send this batch again now"
    client.core.retry(batch, client.leader)
    clients.send(action.producer, batch)


def lose_connection(clients: ProducerClients, action: producing.LoseConnection, before: spec.State) -> None:
    clients.producers[action.producer].core.disconnected(action.broker)
    clients.drop_responses(action.producer, action.broker)


def refresh_metadata(clients: ProducerClients, action: producing.RefreshMetadata, before: spec.State) -> None:
    clients.producers[action.producer].leader = clients.leader


def give_up(clients: ProducerClients, action: producing.GiveUp, before: spec.State) -> None:
    clients.producers[action.producer].core.give_up()
    clients.drop_responses(action.producer)


def receive_response(clients: ProducerClients, action: producing.ReceiveProduceResponse, before: spec.State) -> None:
    response = action.response
    clients.responses.remove(response)
    client = clients.producers[response.request.batch.producer]
    batch = clients.in_line(response.request)
    if batch is None:
        return
    with suppress(DesynchronisedError):
        client.core.complete(batch, response.request.attempt, ErrorCode(response.error.value))
    if response.error is spec.Error.NOT_LEADER_OR_FOLLOWER:
        client.leader = clients.leader


PRODUCING: Final = Steps[ProducerClients, [spec.State], None](
    on(producing.Send, send),
    on(producing.Retry, retry),
    on(producing.LoseConnection, lose_connection),
    on(producing.RefreshMetadata, refresh_metadata),
    on(producing.GiveUp, give_up),
    on(producing.ReceiveProduceResponse, receive_response),
)
