"""Replicated partitions under Hypothesis: a rule for each action of each broker.

Rules name concrete brokers and have preconditions, for that is what Hypothesis shrinks well; messages are chosen by
their place among those of one broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tidegauge.model_tests.harness.lockstep.hypothesis_machine import LockstepRules
from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.lockstep.replication_walks import (
    BROKERS,
    fetch_round,
    large_machine,
    leaderless,
    long_poll,
    lost_proposal,
    one_fetch,
    quiet_round,
)
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks, State

Choice: TypeAlias = Callable[..., protocol.ReplicationAction | None]
Round: TypeAlias = Callable[[Lockstep[Replication], int], Iterator[Action]]


class ReplicationRules(LockstepRules[Replication]):
    """The rules; those of each broker are added below."""

    @initialize(min_insync_replicas=st.integers(1, 2), unclean=st.booleans())
    def create_partition(self, min_insync_replicas: int, unclean: bool) -> None:
        self.begin(large_machine(min_insync_replicas=min_insync_replicas, unclean_leader_election=unclean))

    @precondition(lambda self: self.lockstep is not None)
    @rule()
    def quiet_round(self) -> None:
        self.perform_all(quiet_round)

    @precondition(lambda self: self.lockstep is not None)
    @rule()
    def preferred_leader_returns(self) -> None:
        """Two quiet rounds bring the preferred replica into the ISR; then it takes the leadership back."""
        for _ in range(2):
            self.perform_all(quiet_round)
        self.perform(control.PreferredElection())

    @precondition(lambda self: self.lockstep is not None)
    @rule()
    def fetch_round(self) -> None:
        self.perform_all(fetch_round)

    @precondition(lambda self: self.lockstep is not None)
    @rule()
    def leaderless(self) -> None:
        self.perform_all(leaderless)


def _add_rule(name: str, choose: Choice, **strategies: st.SearchStrategy[Any]) -> None:
    """A rule that performs what `choose(state, **drawn)` picks; it may be drawn when the all-zero choice is enabled."""
    simplest = dict.fromkeys(strategies, 0)

    def may_happen(self: ReplicationRules) -> bool:
        if self.lockstep is None:
            return False
        action = choose(self.lockstep.state, **simplest)
        return action is not None and self.lockstep.is_enabled(action)

    def happen(self: ReplicationRules, **drawn: int) -> None:
        if self.lockstep is not None:
            self.perform(choose(self.lockstep.state, **drawn))

    happen.__name__ = happen.__qualname__ = name
    setattr(ReplicationRules, name, rule(**strategies)(precondition(may_happen)(happen)))  # type: ignore[call-overload]


PLACE = st.integers(0, 3)


def _nth(messages: list[Any], place: int) -> Any:
    return messages[place % len(messages)] if messages else None


def _add_rules_of(broker: int) -> None:
    """The rules in which `broker` acts."""
    for kind in (
        protocol.SendFetch, control.RetryAlterPartition, control.ApplyMetadata,
        faults.ExpireSession, faults.Register, faults.Unfence, faults.Flush, faults.CheckpointHighWatermark,
        faults.Restart, faults.Pause, faults.Resume, faults.DisconnectController,
    ):  # fmt: skip
        _add_rule(f"{_snake(kind.__name__)}_{broker}", lambda state, kind=kind: kind(broker))
    for acks in Acks:
        _add_rule(f"append_{broker}_acks_{acks.name.lower()}", lambda state, acks=acks: protocol.Append(broker, acks))
    _add_rule(
        f"crash_{broker}",
        lambda state, kept: faults.Crash(
            broker, min(state.replicas[broker].flushed + kept, state.replicas[broker].log_end_offset)
        ),
        kept=PLACE,
    )
    _add_rule(f"shrink_isr_{broker}", lambda state, which: _shrink(state, broker, which), which=st.integers(0, BROKERS))
    _add_rule(f"disconnect_{broker}", lambda state, place: _disconnect(state, broker, place), place=PLACE)
    _add_message_rules(broker)
    _add_round("fetch", one_fetch, broker, protocol.SendFetch(broker))
    _add_round("long_poll", long_poll, broker, protocol.SendFetch(broker))
    _add_round("lost_proposal", lost_proposal, broker, faults.DisconnectController(broker))


def _add_round(name: str, taken: Round, broker: int, first: protocol.ReplicationAction) -> None:
    """A rule that takes several steps of one broker; it may be drawn when the first of them is enabled."""

    def happen(self: ReplicationRules) -> None:
        self.perform_all(lambda lockstep: taken(lockstep, broker))

    def may_happen(self: ReplicationRules) -> bool:
        return self.lockstep is not None and self.lockstep.is_enabled(first)

    happen.__name__ = happen.__qualname__ = f"{name}_{broker}"
    setattr(ReplicationRules, happen.__name__, rule()(precondition(may_happen)(happen)))


def _add_message_rules(broker: int) -> None:
    """The rules in which something arrives that `broker` sent, or that is for it."""

    def fetch(state: State, place: int, records: int = 0, again: int = 0) -> protocol.ReceiveFetch | None:
        request = _nth([m for m in state.network.fetches if m.follower == broker], place)
        return protocol.ReceiveFetch(request, records + 1, bool(again)) if request else None

    def held(state: State, place: int) -> protocol.HoldFetch | None:
        request = _nth([m for m in state.network.fetches if m.follower == broker], place)
        return protocol.HoldFetch(request) if request else None

    def fetch_response(state: State, place: int) -> protocol.ReceiveFetchResponse | None:
        response = _nth([m for m in state.network.fetch_responses if m.request.follower == broker], place)
        return protocol.ReceiveFetchResponse(response) if response else None

    def alter(state: State, place: int) -> control.ReceiveAlterPartition | None:
        request = _nth([m for m in state.network.alters if m.leader == broker], place)
        return control.ReceiveAlterPartition(request) if request else None

    def alter_response(state: State, place: int) -> control.ReceiveAlterPartitionResponse | None:
        response = _nth([m for m in state.network.alter_responses if m.leader == broker], place)
        return control.ReceiveAlterPartitionResponse(response) if response else None

    _add_rule(f"receive_fetch_{broker}", fetch, place=PLACE, records=st.integers(0, 2), again=st.integers(0, 1))
    _add_rule(f"hold_fetch_{broker}", held, place=PLACE)
    _add_rule(f"receive_fetch_response_{broker}", fetch_response, place=PLACE)
    _add_rule(f"receive_alter_partition_{broker}", alter, place=PLACE)
    _add_rule(f"receive_alter_partition_response_{broker}", alter_response, place=PLACE)


def _shrink(state: State, broker: int, which: int) -> control.ShrinkIsr | None:
    """`which` = 0: all that lag, else the one at that place."""
    replica = state.replicas[broker]
    if replica.leader != broker or not replica.remote:
        return None
    end = replica.log_end_offset
    lagging = tuple(b for b in replica.isr if b != broker and replica.remote[b].end_offset < end)
    if not lagging:
        return None
    return control.ShrinkIsr(broker, lagging if which == 0 else (lagging[which % len(lagging)],))


def _disconnect(state: State, broker: int, place: int) -> faults.Disconnect | None:
    leaders = sorted({request.leader for request in state.replicas[broker].outstanding})
    leader = _nth(leaders, place)
    return None if leader is None else faults.Disconnect(broker, leader)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


for _broker in range(BROKERS):
    _add_rules_of(_broker)
for _kind in (control.PreferredElection, control.UncleanElection, faults.ControllerFailover):
    _add_rule(_snake(_kind.__name__), lambda state, kind=_kind: kind())
