"""BrokerRegistration and BrokerHeartbeat at the controller (KIP-631, KIP-841)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.membership import GOES_ON, Contact, HeartbeatResponse, broker_error
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH
from tidegauge.impl.server import trace
from tidegauge.impl.wire.primitives import NO_WAIT, i64

if TYPE_CHECKING:
    from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
    from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest

    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.controller.decision import Proposal
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.ports.repeated_lines import RepeatedLines
    from tidegauge.impl.server.controller.broker_processes import BrokerProcesses
    from tidegauge.impl.server.controller.decisions import Decisions, Turn
    from tidegauge.impl.server.trace.events import SessionDecision
    from tidegauge.impl.server.transport.context import RequestContext

LOGGER: Final = logging.getLogger(__name__)

WAITED_FOR: Final[Mapping[Contact, str]] = {
    Contact.OPEN: "another process with this id is connected",
    Contact.CLOSED: "the last process with this id is not connected, and has a session; this one names none of its "
    "directories and addresses",
    Contact.NONE: "the last process with this id has a session, and has sent nothing since the controller started; "
    "this one does not name both a directory and an address of it",
}
"""Why a registration waits for the session of the process before it."""


async def handle_registration(
    request: BrokerRegistrationRequest,
    context: RequestContext,
    *,
    decisions: Decisions,
    cluster_id: str,
    processes: BrokerProcesses,
    clock: Clock,
    timers: bool,
) -> BrokerRegistrationResponse:
    """A broker's process joins and gets its broker epoch.

    Errors: INVALID_REGISTRATION without a listener, INCONSISTENT_CLUSTER_ID for a broker of another cluster, and
    DUPLICATE_BROKER_REGISTRATION while another process with its id may live. Without timers no session expires by
    itself: a process that is not connected counts as gone then when its successor comes.
    """
    if request.cluster_id != cluster_id:
        return _refused(request, processes.refusals, ErrorCode.inconsistent_cluster_id, f"this is cluster {cluster_id}")
    if not request.listeners:
        return _refused(request, processes.refusals, ErrorCode.invalid_registration, "it names no listener")
    listener = request.listeners[0]  # the one for other brokers comes first
    async with decisions.turn() as turn:
        before = turn.controller.image.brokers.get(request.broker_id)
        contact = Contact.NONE if before is None else processes.contact(request.broker_id, before.broker_epoch)
        proposal = turn.controller.members.register(
            request.broker_id,
            host=listener.host,
            port=listener.port,
            rack=request.rack,
            listeners=tuple(
                (one.name, one.host, int(one.port), int(one.security_protocol)) for one in request.listeners
            ),
            directories=tuple(map(str, request.log_dirs)),
            stopped_cleanly_in=request.previous_broker_epoch,
            incarnation_id="" if request.incarnation_id is None else str(request.incarnation_id),
            contact=contact,
            earlier_is_gone=not timers and contact is not Contact.OPEN,
        )
        epoch = await turn.commit(proposal)
        if epoch == UNKNOWN_BROKER_EPOCH:
            left_ms = turn.controller.sessions.get(request.broker_id, clock.steady_ms()) - clock.steady_ms()
            error, next_ = ErrorCode.duplicate_broker_registration, f"its session has {left_ms} ms left"
            return _refused(request, processes.refusals, error, WAITED_FOR[contact], next_)
        processes.note(request.broker_id, epoch, context.connection)
        if turn.is_traced:
            registered = trace.events.Register
            turn.tracer.record(registered, broker=request.broker_id, broker_epoch=epoch, changed=turn.changed())
    return BrokerRegistrationResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, broker_epoch=i64(epoch))


def _refused(
    request: BrokerRegistrationRequest, lines: RepeatedLines, error: ErrorCode, why: str, next_: str | None = None
) -> BrokerRegistrationResponse:
    lines.log_event(
        LOGGER,
        logging.WARNING,
        "registration refused",
        broker=request.broker_id,
        cluster=request.cluster_id,
        error=error.name.upper(),
        why=why,
        next=next_,
    )
    return BrokerRegistrationResponse(throttle_time=NO_WAIT, error_code=error)


async def handle_heartbeat(
    request: BrokerHeartbeatRequest,
    context: RequestContext,
    *,
    decisions: Decisions,
    clock: Clock,
    processes: BrokerProcesses,
) -> BrokerHeartbeatResponse:
    """A broker's session is renewed; a broker that has caught up is unfenced, one that has handed over may stop.

    What renews a session and changes nothing else waits for no decision: sessions don't expire while there are many.
    """
    broker_id = request.broker_id
    asks = request.offline_log_dirs or request.want_fence or request.want_shut_down
    if not asks and decisions.renew_session(partial(_renewal, request=request, clock=clock)):
        processes.note(broker_id, request.broker_epoch, context.connection)
        return _heartbeat_response(GOES_ON)
    async with decisions.turn() as turn:
        if (known := turn.controller.image.brokers.get(broker_id)) and known.broker_epoch == request.broker_epoch:
            processes.note(broker_id, request.broker_epoch, context.connection)
        await _report_offline_directories(turn, request)
        image = turn.controller.image
        before = image.is_unfenced(broker_id), image.is_shutting_down(broker_id)
        proposal = _heartbeat(turn.controller, request, clock)
        response = await turn.commit(proposal)
        after = image.is_unfenced(broker_id), image.is_shutting_down(broker_id)
        if turn.is_traced and (decided := _session_decision(before, after)) is not None:
            turn.tracer.record(decided, broker=broker_id, broker_epoch=request.broker_epoch, changed=turn.changed())
    return _heartbeat_response(response)


def _renewal(
    controller: Controller, request: BrokerHeartbeatRequest, clock: Clock
) -> Proposal[HeartbeatResponse] | None:
    return controller.members.renewal(
        request.broker_id, request.broker_epoch, request.current_metadata_offset, clock.steady_ms()
    )


def _heartbeat(controller: Controller, request: BrokerHeartbeatRequest, clock: Clock) -> Proposal[HeartbeatResponse]:
    return controller.members.heartbeat(
        request.broker_id,
        request.broker_epoch,
        request.current_metadata_offset,
        clock.steady_ms(),
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
    )


def _heartbeat_response(response: HeartbeatResponse) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        throttle_time=NO_WAIT,
        error_code=response.error,
        is_caught_up=response.is_caught_up,
        is_fenced=response.is_fenced,
        should_shut_down=response.should_shut_down,
    )


async def _report_offline_directories(turn: Turn, request: BrokerHeartbeatRequest) -> None:
    """Apply what a heartbeat reports of directories that have failed; one of a former process is ignored."""
    controller, broker_id = turn.controller, request.broker_id
    if not request.offline_log_dirs:
        return
    if broker_error(controller.image, broker_id, request.broker_epoch) is not ErrorCode.none:
        return
    offline = {str(directory) for directory in request.offline_log_dirs}
    newly = await turn.commit(controller.directories.mark_offline(broker_id, offline))
    if newly and turn.is_traced:
        turn.tracer.record(trace.events.DirectoriesOffline, broker=broker_id, changed=turn.changed())


def _session_decision(before: tuple[bool, bool], after: tuple[bool, bool]) -> type[SessionDecision] | None:
    """What a heartbeat has changed, by what the broker was before and is after it: (unfenced, about to stop)."""
    events = trace.events
    decisions: dict[tuple[tuple[bool, bool], tuple[bool, bool]], type[SessionDecision]] = {
        ((False, False), (True, False)): events.Unfence,
        ((True, False), (False, False)): events.ExpireSession,
        ((True, False), (True, True)): events.BeginShutdown,
        ((True, False), (False, True)): events.Shutdown,
        ((True, True), (False, True)): events.GrantShutdown,
    }
    return decisions.get((before, after))
