"""The machine of idempotent producers: explored, step by step, and with each of its historical bugs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.spec.bugs import Bug
from tidegauge.spec.bugs.idempotence import IDEMPOTENCE_BUGS
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.models import IDEMPOTENCE_MODELS, QUICK_IDEMPOTENCE
from tidegauge.spec.idempotence.partition import Crash, Expire, Fetch, ReceiveProduce
from tidegauge.spec.idempotence.producer import LoseConnection, ReceiveProduceResponse, Retry, Send
from tidegauge.spec.idempotence.state import Error, ProducerEntry, Replica, State
from tidegauge.spec.kernel.bounds import Bounds, times
from tidegauge.spec.kernel.codec import read_trace, trace_lines
from tidegauge.spec.kernel.explorer import Exploration, explore
from tidegauge.spec.kernel.machine import Action, Invariant, NotEnabled

every_bug = pytest.mark.parametrize("bug", IDEMPOTENCE_BUGS.values(), ids=IDEMPOTENCE_BUGS)


class Driven:
    """A machine with its present state."""

    def __init__(self, machine: Idempotence) -> None:
        self.machine = machine
        self.state = next(iter(machine.initial()))

    def do(self, *actions: Action) -> State:
        for action in actions:
            self.state = self.machine.step(self.state, action)
        return self.state

    def deliver(self, place: int = 0) -> State:
        """The request at that place arrives, and is committed."""
        self.do(ReceiveProduce(self.state.requests[place]))
        for _ in range(2 * self.machine.max_records):
            for broker in range(self.machine.brokers):
                if broker != self.state.leader:
                    self.do(Fetch(broker))
        return self.state

    def receive(self) -> Error:
        """The next response arrives."""
        response = self.state.responses[0]
        self.do(ReceiveProduceResponse(response))
        return response.error


# --- small models, exhaustively ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUICK_IDEMPOTENCE[: amount(1, deep=len(QUICK_IDEMPOTENCE))])
def test_every_reachable_state_satisfies_every_invariant(name: str) -> None:
    exploration = explore(IDEMPOTENCE_MODELS[name].machine, converges=True)
    assert exploration.holds, exploration.violations[0]
    assert not exploration.unreached
    assert counted(exploration) == COUNTS[name]


@pytest.mark.deep
@pytest.mark.parametrize("name", IDEMPOTENCE_MODELS)
def test_every_model_holds_and_reaches_its_goals(name: str) -> None:
    exploration = explore(IDEMPOTENCE_MODELS[name].machine, converges=True)
    assert exploration.holds, exploration.violations[0]
    assert not exploration.unreached


@attrs.frozen
class NothingIsSentAgain(Idempotence):
    action_types = tuple(kind for kind in Idempotence.action_types if kind is not Retry)


@attrs.frozen
class FollowersDoNotFetch(Idempotence):
    action_types = tuple(kind for kind in Idempotence.action_types if kind is not Fetch)


@pytest.mark.parametrize(
    ("machine", "goal"),
    [
        (
            NothingIsSentAgain(max_records=1, bounds=Bounds(LoseConnection=1)),
            "a batch is acknowledged, or all its attempts are used",
        ),
        (FollowersDoNotFetch(max_records=1, bounds=Bounds()), "a follower has what its leader has"),
    ],
    ids=["NothingIsSentAgain", "FollowersDoNotFetch"],
)
def test_a_goal_fails_where_what_leads_to_it_does_not_happen(machine: Idempotence, goal: str) -> None:
    found = explore(machine, converges=True)
    assert not found.violations
    assert found.convergence is not None
    assert goal in [lasso.goal for lasso in found.convergence.lassos]


def test_the_models_together_turn_every_perturbation_on() -> None:
    turned_on = {name for model in IDEMPOTENCE_MODELS.values() for name in model.machine.bounds}
    assert turned_on == set(Idempotence().perturbations)


# --- scenarios ---------------------------------------------------------------------------------------------------


def test_a_repeat_is_acknowledged_with_the_offset_that_it_got_and_not_appended() -> None:
    driven = Driven(Idempotence(max_records=2))
    driven.do(Send(0))
    driven.deliver()
    driven.do(LoseConnection(0, 0), Retry(0, 0))
    state = driven.deliver()
    assert [(r.base_offset, r.repeated) for r in state.responses] == [(0, True)]
    assert len(state.replicas[0].log) == len(state.replicas[1].log) == 1


def test_a_batch_that_overtakes_is_refused_and_sent_again_behind_the_first() -> None:
    driven = Driven(Idempotence(max_records=2))
    driven.do(Send(0), Send(0))
    driven.deliver(place=1)
    assert driven.receive() is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    driven.deliver()
    assert driven.receive() is Error.OK
    driven.do(Retry(0, 0))
    driven.deliver()
    assert driven.receive() is Error.OK
    assert [b.batch.first for b in driven.state.replicas[1].log] == [0, 1]


def test_sequences_wrap_within_a_batch() -> None:
    driven = Driven(Idempotence(max_records=12, batch_sizes=(2,), batches_retained=2, sequences=5))
    for _ in range(5):
        driven.do(Send(0, 2))
        driven.deliver()
        assert driven.receive() is Error.OK
    assert [b.batch.sequence for b in driven.state.replicas[0].log] == [0, 2, 4, 1, 3]


@pytest.mark.parametrize(
    ("batch_sizes", "in_flight", "retained", "sequences"), [((2,), 2, 2, 4), ((2, 1), 1, 2, 4), ((1,), 2, 1, 2)]
)
def test_sequences_that_would_look_alike_are_no_model(
    batch_sizes: tuple[int, ...], in_flight: int, retained: int, sequences: int
) -> None:
    def first_states(sequences: int) -> list[object]:
        machine = Idempotence(
            batch_sizes=batch_sizes, max_in_flight=in_flight, batches_retained=retained, sequences=sequences
        )
        return list(machine.initial())

    with pytest.raises(ValueError, match=f"sequences={sequences}: {sequences} are remembered"):
        first_states(sequences)
    assert first_states(sequences + 1)


def test_memory_after_a_crash_reaches_behind_its_snapshot() -> None:
    """Kafka's file keeps one batch of a producer, and two may be in flight."""
    machine = Idempotence(max_records=2, max_attempts=1, segments=True, bounds=Bounds(Crash=1))
    exploration = explore(machine)
    rebuilt = [
        state
        for trace in exploration.reached.values()
        for state in trace.states
        if times(state.spent, "Crash") and any(r.snapshots and r.producers for r in state.replicas)
    ]
    assert rebuilt
    assert exploration.holds


class OneBatchFromSnapshots(Idempotence):
    """Kafka's own rule: what a snapshot does not keep is not looked up."""

    def filled(self, entry: ProducerEntry, replica: Replica, offset: int) -> ProducerEntry:
        return entry


def test_a_snapshot_alone_would_not_know_every_repeat() -> None:
    """Why memory is filled up from the log: a producer whose responses were lost would be refused what it has sent."""
    machine = OneBatchFromSnapshots(
        max_records=3, max_attempts=1, batches_retained=2, segments=True, bounds=Bounds(Crash=1)
    )
    assert explore(machine).violations[0].invariant == "ProducerStateMatchesLog"


class NoSessionEnds(Idempotence):
    """Where nothing on trust overtakes, no producer is ever unable to go on."""

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {**super().invariants, "NoSessionEnds": lambda s: not any(one.desynchronised for one in s.producers)}


def test_a_producer_that_was_forgotten_is_taken_on_trust_and_may_skip_a_batch() -> None:
    """The price of KIP-360, which Kafka pays: after an expiry, if requests overtake each other, one goes missing."""
    machine = Idempotence(brokers=1, max_records=3, max_attempts=2, batches_retained=2, bounds=Bounds(Expire=1))
    exploration = explore(machine)
    assert exploration.holds
    trace = exploration.reached["a batch is refused that one on trust has overtaken"]
    assert any(isinstance(action, Expire) for action in trace.actions)
    assert [logged.batch.first for logged in trace.last.replicas[0].log] == [0, 2]
    strict = NoSessionEnds(**attrs.asdict(machine, recurse=False))
    assert explore(strict).violations[0].invariant == "NoSessionEnds"
    assert explore(attrs.evolve(strict, reordering=False)).holds


def test_a_batch_that_one_on_trust_overtook_may_be_refused_and_no_other() -> None:
    """Only a later batch of the same session, in the log of the leader that refuses, is an excuse."""
    machine = Idempotence(brokers=1, max_records=3, max_attempts=2, batches_retained=2, bounds=Bounds(Expire=1))
    trace = explore(machine).reached["a batch is refused that one on trust has overtaken"]
    before, step = trace.steps[-2].state, trace.steps[-1]
    holds = machine.step_invariants["HeadOfLineAccepted"]
    assert holds(before, step.action, step.state)
    replica = step.state.replicas[0]
    *others, last = replica.log
    for without in (
        attrs.evolve(last, on_trust=False),
        attrs.evolve(last, batch=attrs.evolve(last.batch, first=0)),
        attrs.evolve(last, batch=attrs.evolve(last.batch, epoch=1)),
        attrs.evolve(last, batch=attrs.evolve(last.batch, producer=1)),
    ):
        state = step.state.with_replica(0, attrs.evolve(replica, log=(*others, without)))
        assert not holds(before, step.action, state)


def test_a_longer_line_than_the_leader_remembers_breaks_a_session() -> None:
    """Why max.in.flight.requests.per.connection is at most 5."""
    machine = Idempotence(
        brokers=1, max_records=3, max_in_flight=3, max_attempts=2, batches_retained=2, reordering=False
    )
    assert explore(machine).violations[0].invariant == "HeadOfLineAccepted"


def test_what_is_on_disk_for_good_is_not_lost_in_a_crash() -> None:
    driven = Driven(Idempotence(bounds=Bounds(LoseConnection=1, Crash=1)))
    with pytest.raises(NotEnabled, match="would have lost"):
        driven.do(Crash(0, kept=1))


# --- the zoo -----------------------------------------------------------------------------------------------------


@cache
def found(name: str) -> Exploration[State]:
    return explore(IDEMPOTENCE_BUGS[name].machine())


@every_bug
def test_the_explorer_finds_the_bug_by_an_invariant_that_it_breaks(bug: Bug[Idempotence]) -> None:
    violations = found(bug.name).violations
    assert violations, f"{bug.name} was not found among {found(bug.name).distinct} states"
    assert violations[0].invariant in bug.violates


@every_bug
def test_the_counterexample_is_harmless_without_the_bug(bug: Bug[Idempotence]) -> None:
    machine = bug.correct_machine()
    state = next(iter(machine.initial()))
    for action in found(bug.name).violations[0].trace.actions:
        before = state
        with suppress(NotEnabled):
            state = machine.step(state, action)
            assert all(holds(before, action, state) for holds in machine.step_invariants.values())
        assert all(holds(state) for holds in machine.invariants.values())


@every_bug
def test_a_counterexample_can_be_written_and_read_back(bug: Bug[Idempotence]) -> None:
    violation = found(bug.name).violations[0]
    assert read_trace(bug.machine(), trace_lines(bug.machine(), violation.trace, violation)) == violation.trace


@every_bug
def test_a_bug_overrides_one_rule_and_no_action(bug: Bug[Idempotence]) -> None:
    own = {name for name, value in vars(bug.buggy).items() if callable(value) and not name.startswith("_")}
    assert len(own) == 1
    assert all(hasattr(Idempotence, rule) for rule in own)
    assert bug.buggy.action_types is Idempotence.action_types


def test_the_bugs_show_in_small_models() -> None:
    assert max(len(found(name).violations[0].trace) for name in IDEMPOTENCE_BUGS) <= 12
    assert math.prod(found(name).distinct < 1_000 for name in IDEMPOTENCE_BUGS)
