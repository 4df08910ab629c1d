"""Each property of idempotent producing is false of a log or a memory in which what it forbids has happened."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.models import IDEMPOTENCE_MODELS
from tidegauge.spec.idempotence.properties import is_overtaken
from tidegauge.spec.idempotence.state import (
    Acknowledged,
    Batch,
    BatchMetadata,
    Error,
    InFlight,
    LoggedBatch,
    ProducerEntry,
    ProduceRequest,
    ProduceResponse,
    Replica,
    State,
)
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.simulation import simulate

MACHINE = Idempotence(brokers=1)


def batch(first: int, sequence: int | None = None, epoch: int = 0) -> Batch:
    return Batch(0, epoch, first if sequence is None else sequence, first, 1)


def state_of(*batches: Batch, on_trust: bool = False, replica: Replica | None = None) -> State:
    """A partition whose log is these batches, and which remembers nothing of them."""
    log = tuple(LoggedBatch(0, offset, each, on_trust) for offset, each in enumerate(batches))
    (state,) = MACHINE.initial()
    return state.with_replica(0, attrs.evolve(replica or state.replicas[0], log=log))


def violated(state: State) -> set[str]:
    return {name for name, holds in MACHINE.invariants.items() if not holds(state)} - {"ProducerStateMatchesLog"}


@pytest.mark.parametrize(
    ("batches", "names"),
    [
        ((batch(0), batch(1), batch(2)), set()),
        ((batch(0), batch(0)), {"NoDuplicate", "NoGap"}),
        ((batch(0), batch(2), batch(1)), {"NoReordering", "NoGap"}),
        ((batch(1),), {"NoGap"}),
        ((batch(0), batch(2)), {"NoGap"}),
        ((batch(0), batch(1, sequence=0, epoch=1)), set()),
        ((batch(0), batch(1, sequence=1, epoch=1)), {"NoGap"}),
    ],
)
def test_a_log_shows_what_was_doubled_reordered_or_lost(batches: tuple[Batch, ...], names: set[str]) -> None:
    assert violated(state_of(*batches)) == names


def test_a_batch_that_was_taken_on_trust_may_follow_a_gap() -> None:
    assert violated(state_of(batch(1), on_trust=True)) == set()
    assert violated(state_of(batch(0), batch(2), on_trust=True)) == set()


def test_an_acknowledged_batch_is_at_its_offset() -> None:
    state = state_of(batch(0), batch(1))
    for offset, first, names in ((1, 1, set()), (0, 1, {"AcknowledgedWhereItIs"}), (2, 1, {"AcknowledgedWhereItIs"})):
        promised = attrs.evolve(state, acknowledged=(Acknowledged(offset, batch(first)),))
        assert violated(promised) == names


def test_a_memory_is_what_the_log_says() -> None:
    holds = MACHINE.invariants["ProducerStateMatchesLog"]
    known = BatchMetadata(0, 0, 0)
    right = ProducerEntry(0, 0, (known,))
    replica = Replica(epoch_start=0, known_ends=(-1,))

    def remembers(*entries: ProducerEntry, log: tuple[Batch, ...] = (batch(0),), forgot: bool = False) -> bool:
        return holds(state_of(*log, replica=attrs.evolve(replica, producers=entries, forgot=forgot)))

    assert remembers(right)
    assert remembers(log=())
    assert not remembers(right, log=())
    assert not remembers()
    assert remembers(forgot=True)
    assert not remembers(attrs.evolve(right, epoch=1))
    assert not remembers(attrs.evolve(right, batches=(known, known)))
    assert not remembers(attrs.evolve(right, batches=(BatchMetadata(5, 0, 0),)))
    both = (batch(0), batch(1))
    assert not remembers(ProducerEntry(0, 0, (BatchMetadata(1, 1, 0),)), log=both)
    assert remembers(ProducerEntry(0, 0, (BatchMetadata(1, 1, 0),)), log=both, forgot=True)


def refused(first: int, error: Error = Error.OUT_OF_ORDER_SEQUENCE_NUMBER, epoch: int = 0) -> ProduceResponse:
    return ProduceResponse(ProduceRequest(batch(first, epoch=epoch), 0, 0), error)


def test_only_a_later_batch_of_the_session_on_trust_overtakes_one_that_is_refused_as_out_of_order() -> None:
    state = state_of(batch(1), on_trust=True)
    assert is_overtaken(state, refused(0))
    assert not is_overtaken(state, refused(0, Error.INVALID_PRODUCER_EPOCH))
    assert not is_overtaken(state, refused(0, epoch=1))
    assert not is_overtaken(state, refused(1))
    assert not is_overtaken(state, refused(2))
    assert not is_overtaken(state_of(batch(1)), refused(0))


def test_the_goal_of_an_overtaken_batch_is_one_whose_producer_can_not_go_on() -> None:
    machine = Idempotence(brokers=1, bounds=Bounds(Expire=1))
    goal = machine.sometimes["a batch is refused that one on trust has overtaken"]

    def is_reached(*, on_trust: bool = True, waits: bool = True) -> bool:
        state = attrs.evolve(state_of(batch(1), on_trust=on_trust), responses=(refused(0),))
        flights = (InFlight(batch(0), 0, 0, behind=False),) if waits else ()
        return goal(state.with_producer(0, attrs.evolve(state.producers[0], in_flight=flights)))

    assert is_reached()
    assert not is_reached(on_trust=False)
    assert not is_reached(waits=False)


def test_sequences_have_wrapped_when_the_last_one_is_followed() -> None:
    goal = Idempotence(brokers=1, max_records=7, sequences=6).sometimes["sequences have wrapped"]
    assert not goal(state_of(batch(5)))
    assert goal(state_of(batch(6, sequence=0)))


@pytest.mark.parametrize("name", IDEMPOTENCE_MODELS)
def test_walks_of_every_model_keep_every_invariant(name: str) -> None:
    machine = attrs.evolve(IDEMPOTENCE_MODELS[name].machine, max_records=6, max_attempts=4)
    found = simulate(machine, 3, 40, length=60)
    assert found.holds, found.violations
    taken = {row.action for row in found.coverage if row.taken}
    assert set(machine.bounds) <= {kind.bounded_as for kind in machine.action_types if kind.__name__ in taken}
