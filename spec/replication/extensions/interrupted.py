"""A process that dies while its log starts over.

Theory of operation
-------------------
A follower that starts over (`retention`) gives up its records, begins at its leader's log start, and writes down of
which epoch the last record below it was. If it dies in between, its log begins there and knows no epoch. It counts on
nothing then but where it begins: with a leader that starts there it goes on, with any other it starts over once more,
be that at an earlier log start. It is no member of the ISR before it has caught up, as after any crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.extension import Extension
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import ReceiveFetchResponse, ReplicationAction
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.retention import ForgottenEpoch, LeaderLogStart, Retention
from tidegauge.spec.replication.faults import Crash
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import FetchResponse, State


@attrs.frozen
class DieStartingOver(ReplicationAction):
    """A follower's process dies while its log starts over: it begins at the new log start, and knows no epoch."""

    bounded_as: ClassVar[str] = "Crash"
    fair: ClassVar[bool] = False

    response: FetchResponse

    @classmethod
    def is_possible(cls, machine: ReplicationRules) -> bool:
        return Crash.is_possible(machine)

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        yield from map(cls, state.network.fetch_responses)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        received = ReceiveFetchResponse(self.response)
        if not_received := received.guard(machine, state):
            return not_received
        broker = self.response.request.follower
        had = state.replicas[broker]
        if not Retention.of(machine).starts_over(machine, had, self.response):
            return f"broker {broker} does not start over"
        died = Crash(broker, LeaderLogStart.of(self.response).offset)
        return died.guard(machine, received.effect(machine, state))

    def effect(self, machine: ReplicationRules, state: State) -> State:
        broker, start = self.response.request.follower, LeaderLogStart.of(self.response).offset
        died = Crash(broker, start).effect(machine, ReceiveFetchResponse(self.response).effect(machine, state))
        return died.with_replica(broker, with_part(died.replicas[broker], ForgottenEpoch(start)))


@attrs.frozen
class InterruptedStarts(ReplicationExtension):
    """Processes die while their logs start over."""

    requires: ClassVar[tuple[type[Extension], ...]] = (Retention,)
    action_types: ClassVar[tuple[type[Action], ...]] = (DieStartingOver,)
