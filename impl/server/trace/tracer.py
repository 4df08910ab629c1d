"""How a trace is recorded: each node has a `Tracer`, all of a cluster write to one `Trace`, or to none."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Concatenate, ParamSpec

import attrs

from tidegauge.impl.server import trace as trace_of_cluster

if TYPE_CHECKING:
    from tidegauge.impl.partition.replica import PartitionReplica
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.trace.contents import ProducerMemory
    from tidegauge.impl.server.trace.events import Decision, ReplicaState

P = ParamSpec("P")


@attrs.frozen
class TraceEvent:
    """A decision, and when and where it was made."""

    time: int
    """By the node's clock, in ms since 1970."""
    node: int
    """A broker's id, or the controller's."""
    decision: Decision

    @property
    def name(self) -> str:
        """The decision's name, which is that of the specification's action."""
        return type(self.decision).__name__

    def __str__(self) -> str:
        return f"{self.time} {self.node} {self.decision}"


class Trace(list[TraceEvent]):
    """The events of a whole cluster, in the order in which they happened."""

    of_groups = False
    """Whether group coordinators record their decisions too: each has the whole group, and large ones take time."""

    def digest(self) -> str:
        """A hash of all events: equal runs have equal digests, in any process."""
        hasher = sha256()
        for event in self:
            hasher.update(str(event).encode() + b"\n")
        return hasher.hexdigest()


@attrs.frozen(eq=False, repr=False)
class Tracer:
    """Records the decisions of one node. Without a trace it records nothing, and makes no event either.

    On the path of a request, ask `tracer.trace is not None` first: the event's fields are computed by the caller.
    """

    trace: Trace | None
    node: int
    clock: Clock

    def record(self, kind: Callable[P, Decision], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Record the decision `kind(*args, **kwargs)`."""
        if self.trace is not None:
            self.trace.append(TraceEvent(self.clock.now_ms(), self.node, kind(*args, **kwargs)))

    def replica(
        self,
        kind: Callable[Concatenate[str, int, ReplicaState, P], Decision],
        topic: str,
        partition: int,
        replica: PartitionReplica,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Record a decision of a replica, with the replica's state right after it."""
        if self.trace is not None:
            state = trace_of_cluster.events.ReplicaState.of(replica)
            decision = kind(topic, partition, state, *args, **kwargs)
            self.trace.append(TraceEvent(self.clock.now_ms(), self.node, decision))

    def log(
        self,
        kind: Callable[Concatenate[str, int, ReplicaState, ProducerMemory, P], Decision],
        topic: str,
        partition: int,
        replica: PartitionReplica,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Record a decision after which the replica's log may be another one, with what it knows of producers."""
        if self.trace is not None:
            events = trace_of_cluster.events
            state, producers = events.ReplicaState.of(replica), events.ProducerMemory.of(replica.log)
            decision = kind(topic, partition, state, producers, *args, **kwargs)
            self.trace.append(TraceEvent(self.clock.now_ms(), self.node, decision))
