"""Lockstep under Hypothesis: a rule for each action of each broker, drawn, shrunk and saved.

Rules name concrete brokers and are guarded by preconditions, since that is what Hypothesis shrinks well; messages are
picked by their place among those of one broker. `drive` runs a number of examples against a binding and returns what
it found as a value. A failing example is cut down by delta debugging on its actions, which is far quicker than letting
Hypothesis shrink its choices, and comes as a counterexample that can be saved and replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

import attrs
import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Expected, Failure, Found
from tidegauge.model_tests.harness.lockstep.lockstep import (
    BROKERS,
    Bind,
    Difference,
    Lockstep,
    calm_round,
    fetch_round,
    large_machine,
    leaderless,
    long_poll,
    lost_proposal,
    one_fetch,
)
from tidegauge.model_tests.harness.lockstep.shrinking import shrunk
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks, State


@attrs.define
class Tally:
    """What a series of examples did."""

    examples: int = 0
    actions: Counter[str] = attrs.field(factory=Counter)
    failing: tuple[Replication, tuple[Action, ...]] | None = None
    """The machine and the actions of the example that failed."""
    walks_to_failure: int | None = None


class LockstepMachine(RuleBasedStateMachine):
    """The rules; `driven_by` makes a subclass for a binding."""

    bind: ClassVar[Bind]
    tally: ClassVar[Tally]

    def __init__(self) -> None:
        super().__init__()
        self.lockstep: Lockstep[Replication] | None = None

    @initialize(min_insync_replicas=st.integers(1, 2), unclean=st.booleans())
    def create_partition(self, min_insync_replicas: int, unclean: bool) -> None:
        machine = large_machine(min_insync_replicas=min_insync_replicas, unclean_leader_election=unclean)
        self.tally.examples += 1
        self.lockstep = Lockstep(machine, type(self).bind(machine))

    @precondition(lambda self: self.lockstep is not None)
    @rule()
    def calm_round(self) -> None:
        self.perform_all(calm_round)

    @precondition(lambda self: self.lockstep is not None)
    @rule()
    def fetch_round(self) -> None:
        self.perform_all(fetch_round)

    @precondition(lambda self: self.lockstep is not None)
    @rule()
    def leaderless(self) -> None:
        self.perform_all(leaderless)

    def perform_all(self, macro: Callable[[Lockstep[Replication]], Iterator[Action]]) -> None:
        if self.lockstep is not None:
            for action in macro(self.lockstep):
                self.perform(action)

    def perform(self, action: Action | None) -> None:
        lockstep = self.lockstep
        if lockstep is None or action is None:
            return
        try:
            if lockstep.perform(action):
                self.tally.actions[action.name] += 1
        except Difference:
            if self.tally.walks_to_failure is None:
                self.tally.walks_to_failure = self.tally.examples
            self.tally.failing = lockstep.machine, tuple(lockstep.actions)
            raise

    def teardown(self) -> None:
        if self.lockstep is not None:
            self.lockstep.close()


Choice = Callable[..., protocol.ReplicationAction | None]


def _add_rule(name: str, choose: Choice, **strategies: st.SearchStrategy[Any]) -> None:
    """A rule that performs what `choose(state, **drawn)` picks; it may be drawn when the all-zero choice is enabled."""
    simplest = dict.fromkeys(strategies, 0)

    def may_happen(self: LockstepMachine) -> bool:
        if self.lockstep is None:
            return False
        action = choose(self.lockstep.state, **simplest)
        return action is not None and self.lockstep.is_enabled(action)

    def happen(self: LockstepMachine, **drawn: int) -> None:
        if self.lockstep is not None:
            self.perform(choose(self.lockstep.state, **drawn))

    happen.__name__ = happen.__qualname__ = name
    setattr(LockstepMachine, name, rule(**strategies)(precondition(may_happen)(happen)))  # type: ignore[call-overload]


PLACE = st.integers(0, 3)


def _nth(messages: list[Any], place: int) -> Any:
    return messages[place % len(messages)] if messages else None


def _add_rules_of(broker: int) -> None:
    """The rules in which `broker` acts."""
    for kind in (
        protocol.SendFetch, control.RetryAlterPartition, control.ApplyMetadata,
        faults.LapseSession, faults.Register, faults.Unfence, faults.Flush, faults.CheckpointHighWatermark,
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
    _add_macro("fetch", one_fetch, broker, protocol.SendFetch(broker))
    _add_macro("long_poll", long_poll, broker, protocol.SendFetch(broker))
    _add_macro("lost_proposal", lost_proposal, broker, faults.DisconnectController(broker))


Macro = Callable[[Lockstep[Replication], int], Iterator[Action]]


def _add_macro(name: str, macro: Macro, broker: int, first: protocol.ReplicationAction) -> None:
    """A rule that takes several steps of one broker; it may be drawn when the first of them is enabled."""

    def happen(self: LockstepMachine) -> None:
        self.perform_all(lambda lockstep: macro(lockstep, broker))

    def may_happen(self: LockstepMachine) -> bool:
        return self.lockstep is not None and self.lockstep.is_enabled(first)

    happen.__name__ = happen.__qualname__ = f"{name}_{broker}"
    setattr(LockstepMachine, happen.__name__, rule()(precondition(may_happen)(happen)))


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


# --- running it ----------------------------------------------------------------------------------------------------


@attrs.frozen
class LockstepRun:
    """What a number of examples showed."""

    examples: int
    actions: Counter[str]
    """Actions performed, by name."""
    counterexample: Counterexample | None
    difference: str
    """The difference in words; empty when there is none."""
    walks_to_failure: int | None
    """Examples up to the first that failed."""

    @property
    def holds(self) -> bool:
        return self.counterexample is None

    @property
    def steps(self) -> int:
        return self.actions.total()


def drive(
    bind: Bind,
    *,
    name: str,
    examples: int,
    seed: int | None = None,
    steps: int = 50,
    bug: str | None = None,
) -> LockstepRun:
    """Run `examples` examples of up to `steps` rules each against what `bind` makes; `name` says what that is.

    Without a seed the examples are the same in every run. `bug` is the zoo's name of the bug that `bind` switched on,
    for the counterexample.
    """
    tally = Tally()
    kind = type("Lockstep", (LockstepMachine,), {"bind": staticmethod(bind), "tally": tally})
    if seed is not None:
        hypothesis.seed(seed)(kind)
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=seed is None,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    with suppress(Difference):
        run_state_machine_as_test(kind, settings=settings)
    if tally.failing is None:
        return LockstepRun(tally.examples, tally.actions, None, "", None)
    machine, actions = tally.failing
    shortest, difference = shrunk(bind, machine, actions)
    expected = Expected(Failure.DIFFERENCE, difference.path)
    counterexample = Counterexample(machine, bug, shortest, expected, Found(name, seed))
    return LockstepRun(tally.examples, tally.actions, counterexample, str(difference), tally.walks_to_failure)
