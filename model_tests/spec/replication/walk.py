"""A behaviour of the replication machine told step by step: what the tests of this room walk with."""

from __future__ import annotations

from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.replication.actions import ReceiveFetch, ReceiveFetchResponse, SendFetch
from tidegauge.spec.replication.control import ReceiveAlterPartition, ReceiveAlterPartitionResponse
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Error, FetchRequest, State

PLENTY = Replication().without_bounds().bounds


class Walk:
    """A behaviour told step by step; every state on the way satisfies every invariant."""

    def __init__(self, machine: ReplicationRules) -> None:
        self.machine = machine
        self.state: State = next(iter(machine.initial()))

    def do(self, *actions: Action) -> Walk:
        for action in actions:
            before, self.state = self.state, self.machine.step(self.state, action)
            violated = [name for name, holds in self.machine.invariants.items() if not holds(self.state)]
            steps = self.machine.step_invariants.items()
            violated += [name for name, holds in steps if not holds(before, action, self.state)]
            assert not violated, f"{violated} after {action}"
        return self

    def ask(self, *followers: int) -> Walk:
        return self.do(*(SendFetch(follower) for follower in followers))

    def asked(self, follower: int) -> FetchRequest:
        return next(m for m in self.state.network.fetches if m.follower == follower)

    def arrive(self, follower: int) -> Walk:
        return self.do(ReceiveFetch(self.asked(follower)))

    def receive(self, follower: int) -> Walk:
        responses = self.state.network.fetch_responses
        return self.do(*(ReceiveFetchResponse(m) for m in responses if m.request.follower == follower))

    def fetch(self, *followers: int) -> Walk:
        """A whole fetch by each follower: request, response, and what the follower makes of it."""
        for follower in followers:
            self.ask(follower).arrive(follower).receive(follower)
        return self

    def decide(self) -> Walk:
        """The controller decides on what leaders have proposed."""
        return self.do(*(ReceiveAlterPartition(m) for m in self.state.network.alters))

    def learn(self) -> Walk:
        """Leaders receive the controller's decisions."""
        return self.do(*(ReceiveAlterPartitionResponse(m) for m in self.state.network.alter_responses))

    def hw(self, broker: int) -> int:
        return self.state.replicas[broker].high_watermark

    def values(self, broker: int) -> list[int]:
        return [record.value for record in self.state.replicas[broker].log]

    def decisions(self) -> list[Error]:
        return [m.error for m in self.state.network.alter_responses]

    def enabled(self, action: Action) -> bool:
        try:
            self.machine.step(self.state, action)
        except NotEnabled:
            return False
        return True
