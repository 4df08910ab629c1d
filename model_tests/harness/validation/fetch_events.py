"""Decisions about fetches, of followers and of leaders, as actions of the specification."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.server.trace import events
from tidegauge.model_tests.harness.validation.followed import Followed
from tidegauge.model_tests.harness.validation.observed import AbandonFetch, TakeInPart
from tidegauge.model_tests.harness.validation.ways import Choice, Make, actions_of, all_of, error_of, just
from tidegauge.spec.kernel.machine import NotEnabled
from tidegauge.spec.kernel.parts import parts_of
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions.directories import (
    has_failed,
)
from tidegauge.spec.replication.extensions.late import FetchArrivesLate, ResponseArrivesLate
from tidegauge.spec.replication.extensions.reassignment import (
    listed,
)
from tidegauge.spec.replication.extensions.retention import (
    FollowerLogStart,
    LeaderLogStart,
)
from tidegauge.spec.replication.extensions.running_damage import is_withdrawn
from tidegauge.spec.replication.state import (
    NONE,
    Error,
    FetchRequest,
    FetchResponse,
    State,
)


@actions_of.register(events.SendFetch)
def send_fetch(decision: events.SendFetch, node: int, followed: Followed) -> Iterator[Choice]:
    """A fetch to a leader that is down already is lost, and so is no action: its Disconnect follows."""
    assert followed.state is not None
    leader = followed.index(decision.source)
    if followed.state.replicas[leader].running:
        wanted = request_of(decision.fetch, decision.source, followed)
        yield [lambda state: protocol.SendFetch(followed.index(node))]
        if wanted not in followed.sent:
            return
    else:
        yield []


@actions_of.register(events.ReceiveFetch)
def receive_fetch(decision: events.ReceiveFetch, node: int, followed: Followed) -> Iterator[Choice]:
    """A copy stays on its way as long as the same fetch will arrive again: doubled, or given up and sent anew."""
    assert followed.state is not None
    request = request_of(decision.fetch, node, followed)
    again = followed.arrives_again(node, decision.fetch)
    receive = protocol.ReceiveFetch(request, decision.outcome.records, duplicate=again)

    def as_recorded(state: State) -> ReplicationAction:
        """The action, if its response is the decision's. The follower may never get to see that response."""
        assert followed.machine is not None
        _, response = protocol.fetched(followed.machine, state, request, receive.records)
        if not says(decision.outcome, response):
            raise NotEnabled(receive, f"broker {request.leader} responds {response}")
        return receive

    if request in followed.state.network.fetches:
        yield [as_recorded]
    elif request in followed.sent:
        yield [*just(FetchArrivesLate(request)), as_recorded]


@actions_of.register(events.HoldFetch)
def hold_fetch(decision: events.HoldFetch, node: int, followed: Followed) -> Iterator[Choice]:
    assert followed.state is not None
    followed.arrives_again(node, decision.fetch)
    request = request_of(decision.fetch, node, followed)
    if request in followed.state.network.fetches:
        yield just(protocol.HoldFetch(request))
    elif request in followed.sent:
        yield all_of(FetchArrivesLate(request), protocol.HoldFetch(request))


@actions_of.register(events.RefuseFetch)
def refuse_fetch(decision: events.RefuseFetch, node: int, followed: Followed) -> Iterator[Choice]:
    """A broker has no such replica, as it says; its response changes nothing at the follower."""
    assert followed.state is not None
    request = request_of(decision.fetch, node, followed)
    replica = followed.state.replicas[request.leader]
    waits = node in followed.without_room
    if waits or has_failed(replica) or is_withdrawn(replica) or request.leader not in listed(replica):
        followed.refused[request] = decision.error
        yield []


@actions_of.register(events.ReceiveFetchResponse)
def receive_fetch_response(decision: events.ReceiveFetchResponse, node: int, followed: Followed) -> Iterator[Choice]:
    """That the leader does not know the topic changes nothing, nor does the response of a failed disk.

    It may have been sent just before its sender stopped, when the specification's follower no longer waits for it.
    A follower refuses records that have rotten on a disk that damages: they are as good as lost, and asked for again.
    """
    assert followed.state is not None
    request, outcome = request_of(decision.fetch, decision.source, followed), decision.outcome
    refused = followed.refused.get(request) is outcome.error
    if refused or error_of(outcome.error) in (None, Error.KAFKA_STORAGE_ERROR):
        yield just(AbandonFetch(request)) if waits_for(request, followed.state) else []
        return
    yield from _as_sent(request, outcome, followed)
    damaging = followed.settings.damaging or frozenset()
    if outcome.records and not decision.accepted and decision.source in damaging and waits_for(request, followed.state):
        yield just(AbandonFetch(request))


@actions_of.register(events.TakeInPart)
def take_in_part(decision: events.TakeInPart, node: int, followed: Followed) -> Iterator[Choice]:
    """Of a response that cuts there are no parts; of one with records, the rest may be missing."""
    assert followed.state is not None
    request = request_of(decision.fetch, decision.source, followed)
    for choice in _as_sent(request, decision.outcome, followed):
        yield choice
        if decision.outcome.records:
            yield [*choice[:-1], in_part(choice[-1])]


def in_part(make: Make) -> Make:
    def taken(state: State) -> ReplicationAction:
        received = make(state)
        assert isinstance(received, protocol.ReceiveFetchResponse)
        return TakeInPart(received.response)

    return taken


def _as_sent(request: FetchRequest, outcome: events.FetchOutcome, followed: Followed) -> Iterator[Choice]:
    """The response as its leader sent it, soon or late."""
    assert followed.state is not None
    for response in followed.state.network.fetch_responses:
        if response.request == request and says(outcome, response):
            yield just(protocol.ReceiveFetchResponse(response))
            return
    for response in followed.responses:
        if response.request == request and says(outcome, response):
            yield all_of(ResponseArrivesLate(response), protocol.ReceiveFetchResponse(response))


@actions_of.register(events.Disconnect)
def disconnect(decision: events.Disconnect, node: int, followed: Followed) -> Iterator[Choice]:
    """One request is given up; one that never was an action (its leader was down) leaves no trace."""
    assert followed.state is not None
    request = request_of(decision.fetch, decision.source, followed)
    yield just(AbandonFetch(request)) if waits_for(request, followed.state) else []


def request_of(fetch: FollowerFetch, source: int, followed: Followed) -> FetchRequest:
    """A fetch to the broker `source` in the specification's terms."""
    return FetchRequest(
        followed.index(fetch.replica_id),
        followed.index(source),
        fetch.leader_epoch,
        fetch.fetch_offset,
        fetch.last_fetched_epoch,
        followed.incarnation(fetch.replica_id, fetch.broker_epoch),
        parts_of(FollowerLogStart(fetch.log_start_offset)),
    )


def says(outcome: events.FetchOutcome, response: FetchResponse) -> bool:
    """Whether the two are the same response."""
    if response.error is not error_of(outcome.error):
        return False
    if (
        response.error in (Error.OK, Error.OFFSET_OUT_OF_RANGE)
        and LeaderLogStart.of(response).offset != outcome.log_start
    ):
        return False
    diverging = outcome.diverging_epoch
    return response.error is not Error.OK or (
        (response.diverging_epoch, response.diverging_end_offset)
        == ((NONE, NONE) if diverging is None else (diverging.epoch, diverging.end_offset))
        and response.high_watermark == outcome.high_watermark
        and len(response.records) == outcome.records
    )


def waits_for(request: FetchRequest, state: State) -> bool:
    return request in state.replicas[request.follower].outstanding
