"""What a run has covered: shapes of the specification's state, and steps from one decision of a node to its next.

Hardly a state of a run is ever seen twice, with its offsets and epochs. Its *shape* leaves out numbers and the names of
brokers: who leads, as far as it knows, who is in sync, whose log is behind what is committed or has parted from it,
what is on its way. A *step* is two decisions of one node in a row, with their errors: the branches that its code has
taken. Both are numbers that are the same in every process.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import Trace
from tidegauge.spec.replication.extensions.damage import damage_of
from tidegauge.spec.replication.extensions.directories import offline
from tidegauge.spec.replication.extensions.reassignment import Assignment, assigned
from tidegauge.spec.replication.extensions.retention import log_start_of
from tidegauge.spec.replication.extensions.shutdown import is_shutting_down
from tidegauge.spec.replication.extensions.unregistering import is_unregistered
from tidegauge.spec.replication.state import NONE, State

MANY = 2
"""From here on numbers are alike."""


def shape_of(state: State) -> int:
    """The state without numbers and names."""
    controller, network = state.controller, state.network
    whole = (
        controller.leader == NONE,
        state.history.unsettled,
        min(len(network.alters), MANY),
        min(len(network.alter_responses), MANY),
        len(Assignment.of(controller).adding),
        len(Assignment.of(controller).removing),
        sorted(_replica_shape(state, broker) for broker in range(len(state.replicas))),
    )
    return crc32(repr(whole).encode())


def _replica_shape(state: State, broker: int) -> tuple[int, ...]:
    replica, controller = state.replicas[broker], state.controller
    session, committed = controller.sessions[broker], state.history.committed
    shared = next(
        (place for place, (own, other) in enumerate(zip(replica.log, committed, strict=False)) if own != other), NONE
    )
    return (
        replica.running,
        replica.paused,
        session.fenced,
        is_shutting_down(session),
        is_unregistered(controller, broker),
        replica.broker_epoch == session.broker_epoch,
        broker in assigned(controller),
        broker in offline(controller),
        broker in controller.isr,
        broker in controller.elr,
        broker == controller.leader,
        broker == replica.leader,
        min(controller.leader_epoch - replica.leader_epoch, MANY),
        min(controller.partition_epoch - replica.partition_epoch, MANY),
        max(-MANY, min(replica.log_end_offset - len(committed), MANY)),
        shared != NONE,
        min(len(committed) - replica.high_watermark, MANY),
        min(replica.log_end_offset - replica.flushed, MANY),
        log_start_of(replica) > 0,
        damage_of(replica) != NONE,
        bool(replica.pending_isr),
        min(len(replica.outstanding), MANY),
    )


def steps_of(trace: Trace) -> Iterator[tuple[int, int]]:
    """(step, the place in the trace where it was taken) of each."""
    before: dict[int, str] = {}
    for place, event in enumerate(trace):
        now = event.name + _outcome(event.decision)
        yield crc32(f"{before.get(event.node, '')} then {now}".encode()), place
        before[event.node] = now


def _outcome(decision: events.Decision) -> str:
    """The error of a decision that has one, and whether what came was taken."""
    error = getattr(getattr(decision, "outcome", decision), "error", None)
    return f" {getattr(error, 'name', '')} {getattr(decision, 'accepted', '')}"
