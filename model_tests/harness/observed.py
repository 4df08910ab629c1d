"""The replication machine as a real network shows it: four ways in which it is looser, and no more.

The specification's network either brings a message or has lost it for good, its followers wait until a connection
breaks as a whole, and its brokers read the controller's newest word at the instant at which they act on it. A cluster
is looser in four ways, which trace validation must be able to follow; each is an action of its own, so that a
validated trace says how often it was needed.

* `ArriveLate`: a message that its sender had given up arrives after all, or a second copy of one does.
* `AbandonFetch`: a follower stops waiting for one answer.
* `ApplyOlderMetadata`: what a broker pulled has been overtaken by the time that it acts on it; the model has
  `PullMetadata` for that, but a trace does not tell when a broker pulled.
* `RegisterAgain`: a broker whose registration succeeded never heard so, and registers once more.

All invariants of `spec.replication` are checked on the way, so none of the four weakens what is concluded.
"""

from __future__ import annotations

import attrs

from spec.controlled_shutdown import ControlledShutdown
from spec.machine import NotEnabled
from spec.replication import Bounds, Replication
from spec.replication_actions import BrokerAction, ReplicationAction, not_acting, on_network
from spec.replication_control import ApplyMetadata
from spec.replication_faults import Register
from spec.replication_state import NONE, AlterPartitionRequest, Controller, FetchRequest, State, sent

ANY = 1_000_000_000
UNBOUNDED = Bounds(**{field.name: ANY for field in attrs.fields(Bounds)})
"""As often as it happens."""


@attrs.frozen
class ArriveLate(ReplicationAction):
    """A message is on its way again; the validator knows that it once was sent."""

    message: FetchRequest | AlterPartitionRequest

    def guard(self, machine: Replication, state: State) -> str:
        return ""

    def effect(self, machine: Replication, state: State) -> State:
        if isinstance(self.message, FetchRequest):
            return on_network(state, fetches=sent(state.network.fetches, self.message))
        return on_network(state, alters=sent(state.network.alters, self.message))


@attrs.frozen
class AbandonFetch(ReplicationAction):
    """A follower waits no longer for the answer to `request`, which may or may not be on its way still."""

    request: FetchRequest

    def guard(self, machine: Replication, state: State) -> str:
        if self.request in state.replicas[self.request.follower].outstanding:
            return ""
        return f"broker {self.request.follower} doesn't wait for an answer to {self.request}"

    def effect(self, machine: Replication, state: State) -> State:
        replica = state.replicas[self.request.follower]
        waiting = tuple(request for request in replica.outstanding if request != self.request)
        return state.with_replica(self.request.follower, attrs.evolve(replica, outstanding=waiting))


@attrs.frozen
class ApplyOlderMetadata(BrokerAction):
    """`ApplyMetadata` of what the controller had written earlier."""

    written: Controller

    def guard(self, machine: Replication, state: State) -> str:
        replica = state.replicas[self.broker]
        known = (replica.partition_epoch, replica.controller_epoch)
        if (self.written.partition_epoch, self.written.epoch) == known or self.written.partition_epoch < known[0]:
            return f"broker {self.broker} knows it all"
        return not_acting(state, self.broker)

    def effect(self, machine: Replication, state: State) -> State:
        present = state.controller
        written = attrs.evolve(self.written, sessions=present.sessions)
        applied = ApplyMetadata(self.broker).effect(machine, attrs.evolve(state, controller=written))
        return attrs.evolve(applied, controller=present)


@attrs.frozen
class RegisterAgain(BrokerAction):
    """`Register` by a broker that already is registered."""

    def guard(self, machine: Replication, state: State) -> str:
        return "" if state.replicas[self.broker].running else f"broker {self.broker} is down"

    def effect(self, machine: Replication, state: State) -> State:
        unheard = attrs.evolve(state.replicas[self.broker], broker_epoch=NONE)
        return Register(self.broker).effect(machine, state.with_replica(self.broker, unheard))


@attrs.frozen
class ObservedReplication(ControlledShutdown):
    """`ControlledShutdown`, and with it `Replication`, with the four."""

    action_types = (*ControlledShutdown.action_types, ArriveLate, AbandonFetch, ApplyOlderMetadata, RegisterAgain)


def step(machine: Replication, state: State, action: ReplicationAction) -> State:
    """One step. Raises NotEnabled with the guard that failed."""
    if failed := action.guard(machine, state):
        raise NotEnabled(action, failed)
    return action.effect(machine, state)
