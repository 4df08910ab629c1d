"""How the implementation's objects look to the specification.

One function for each class: what the spec says of it is picked out, what the spec does not know (times, callbacks,
topic names) is left out. Broker epochs are offsets of the metadata log in the implementation and count incarnations in
the specification; `Epochs` is the dictionary between the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller import controller as core
from tidegauge.impl.metadata.image import BrokerRegistration
from tidegauge.impl.partition import messages
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.spec.replication import state as spec

UNKNOWN_REMOTE: Final = spec.RemoteReplica()
FUTURE: Final = 1 << 40
"""No metadata log is as long, and no broker epoch as large."""


class Epochs:
    """Each broker's incarnations, by the broker epoch that the implementation gave them."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._counts: dict[int, int] = {}

    def register(self, broker: int, broker_epoch: int) -> None:
        """A new incarnation; the first of each broker is number 0."""
        number = self._counts.get(broker, 0)
        self._numbers[broker, broker_epoch] = number
        self._counts[broker] = number + 1

    def latest(self, broker: int) -> int:
        """The number of the last one, be it of no process."""
        return self._counts[broker] - 1

    def number(self, broker: int, broker_epoch: int) -> int:
        """The specification's broker epoch; -1 for -1."""
        return spec.NONE if broker_epoch == messages.UNKNOWN_BROKER_EPOCH else self._numbers[broker, broker_epoch]

    def broker_epoch(self, broker: int, number: int) -> int:
        """The implementation's broker epoch of an incarnation; for one that is yet to come, one beyond all others."""
        if number == spec.NONE:
            return messages.UNKNOWN_BROKER_EPOCH
        known = (epoch for (one, epoch), found in self._numbers.items() if (one, found) == (broker, number))
        return next(known, FUTURE + number)


def error(code: ErrorCode) -> spec.Error:
    """Raises ValueError for an error that no response of the specification has."""
    return spec.Error(code.value)


def ids(brokers: frozenset[int] | None) -> tuple[int, ...]:
    return tuple(sorted(brokers)) if brokers else ()


def fetch_request(
    fetch: messages.FollowerFetch, leader: int, epochs: Epochs, additions: Additions
) -> spec.FetchRequest:
    return spec.FetchRequest(
        follower=fetch.replica_id,
        leader=leader,
        leader_epoch=fetch.leader_epoch,
        offset=fetch.fetch_offset,
        last_fetched_epoch=fetch.last_fetched_epoch,
        broker_epoch=epochs.number(fetch.replica_id, fetch.broker_epoch),
        parts=additions.to_fetch(fetch),
    )


def fetch_response(
    request: spec.FetchRequest,
    response: messages.PartitionFetchResponse,
    records: spec.Log,
    additions: Additions,
    history: spec.Log = (),
) -> spec.FetchResponse:
    """`history` is all that the leader's log has had, of which the specification hands some on where logs start."""
    parts = additions.to_fetch_response(response, history)
    if response.error is not ErrorCode.none:
        return spec.FetchResponse(request, error(response.error), parts=parts)
    diverging = response.diverging_epoch
    return spec.FetchResponse(
        request,
        records=records,
        high_watermark=response.high_watermark,
        diverging_epoch=spec.NONE if diverging is None else diverging.epoch,
        diverging_end_offset=spec.NONE if diverging is None else diverging.end_offset,
        parts=parts,
    )


def alter_partition_request(request: messages.AlterPartitionRequest, epochs: Epochs) -> spec.AlterPartitionRequest:
    return spec.AlterPartitionRequest(
        leader=request.broker_id,
        broker_epoch=epochs.number(request.broker_id, request.broker_epoch),
        leader_epoch=request.leader_epoch,
        partition_epoch=request.partition_epoch,
        isr=tuple((broker, epochs.number(broker, broker_epoch)) for broker, broker_epoch in request.isr),
    )


def alter_partition_response(
    request: messages.AlterPartitionRequest, response: messages.AlterPartitionResponse
) -> spec.AlterPartitionResponse:
    registration = response.registration
    assert registration is not None, "the harness's partition always exists"
    return spec.AlterPartitionResponse(
        leader=request.broker_id,
        leader_epoch=request.leader_epoch,
        proposed_on=request.partition_epoch,
        error=error(response.error),
        isr=ids(registration.isr),
        partition_epoch=registration.partition_epoch,
        controller_epoch=response.controller_epoch,
    )


def remote_replicas(
    replica: PartitionReplica, brokers: int, epochs: Epochs, additions: Additions
) -> tuple[spec.RemoteReplica, ...]:
    """What a leader knows of each broker, nothing of itself; () for a replica that does not lead."""
    if replica.epoch_start_offset == messages.UNKNOWN_OFFSET:
        return ()
    known = replica.remote_replicas
    return tuple(
        UNKNOWN_REMOTE
        if broker not in known or known[broker].log_end_offset == messages.UNKNOWN_OFFSET
        else spec.RemoteReplica(
            known[broker].log_end_offset,
            epochs.number(broker, known[broker].broker_epoch),
            additions.to_follower(known[broker]),
        )
        for broker in range(brokers)
    )


def metadata(registration: PartitionRegistration, controller_epoch: int) -> spec.PartitionMetadata:
    return spec.PartitionMetadata(
        controller_epoch,
        registration.leader,
        registration.leader_epoch,
        registration.partition_epoch,
        ids(registration.isr),
    )


def session(known: BrokerRegistration | None, broker: int, epochs: Epochs, additions: Additions) -> spec.Session:
    """What the controller knows of a broker, or that it knows none."""
    if known is None:
        return spec.Session(epochs.latest(broker), fenced=True, parts=additions.to_absent())
    return spec.Session(epochs.number(broker, known.broker_epoch), known.fenced, additions.to_session(known))


def controller(
    active: core.Controller,
    registration: PartitionRegistration,
    brokers: int,
    epochs: Epochs,
    additions: Additions,
) -> spec.Controller:
    registered = active.image.brokers
    return spec.Controller(
        epoch=active.controller_epoch,
        sessions=tuple(session(registered.get(broker), broker, epochs, additions) for broker in range(brokers)),
        leader=registration.leader,
        leader_epoch=registration.leader_epoch,
        partition_epoch=registration.partition_epoch,
        isr=ids(registration.isr),
        elr=ids(registration.elr),
        last_known_leader=registration.last_known_leader,
    )


def acknowledged(completed: Iterable[tuple[int, int, bool]], history: spec.History) -> tuple[int, ...]:
    """The acknowledged values, of (value, leader epoch, whether it was acknowledged).

    The specification ignores leaders that an unclean election has superseded, and so does this.
    """
    superseded, noted = history.superseded_epoch, history.acknowledged
    return tuple(sorted(value for value, epoch, done in completed if done and (epoch >= superseded or value in noted)))


def network(
    fetches: Iterable[spec.FetchRequest],
    fetch_responses: Iterable[spec.FetchResponse],
    alters: Iterable[spec.AlterPartitionRequest],
    alter_responses: Iterable[spec.AlterPartitionResponse],
) -> spec.Network:
    return spec.Network(
        spec.in_order(fetches), spec.in_order(fetch_responses), spec.in_order(alters), spec.in_order(alter_responses)
    )
