"""Idempotent producers in campaigns: what replicas remember is in the trace, and is what `spec.idempotence` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.sequencing import Sequencing
from tidegauge.impl.partition.messages import EpochEndOffset, FollowerFetch
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.contents import LoggedBatch, ProducerMemory, RememberedBatch, RememberedProducer
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.bugs.idempotence import IDEMPOTENCE_BUGS
from tidegauge.model_tests.bugs.idempotence.kafka_3197 import InFlightByConnection
from tidegauge.model_tests.harness.simulation.lines import Lines, out_of_order
from tidegauge.model_tests.harness.simulation.options import draw
from tidegauge.model_tests.harness.simulation.simulation import simulate
from tidegauge.model_tests.harness.validation.producers import Remembering
from tidegauge.model_tests.harness.validation.ways import Wrong

FOUND = {
    "kafka_3197": (1, "which the specification forbids: producer 0 has to wait for what is in flight"),
    "kafka_6003": (1, "decisions at one time, "),
    "kafka_15591": (3, "is appended, the specification responds OUT_OF_ORDER_SEQUENCE_NUMBER"),
}


@pytest.mark.parametrize("bug", FOUND)
def test_the_seed_that_has_found_a_bug_of_idempotence_finds_it(bug: str) -> None:
    seed, told = FOUND[bug]
    run = simulate(draw(seed, bug=bug), validated="specification responds" in told)
    assert not run.holds
    assert told in "\n".join(run.failures)
    assert run.reproduce == f"tidegauge simulate --seed {seed} --bug {bug}"


@pytest.mark.deep
@pytest.mark.parametrize("bug", IDEMPOTENCE_BUGS)
def test_a_campaign_of_200_seeds_finds_every_bug_of_idempotence(bug: str) -> None:
    assert any(not simulate(draw(seed, bug=bug)).holds for seed in range(1, 201)), f"{bug} shows in none of 200 seeds"


@pytest.mark.deep
def test_what_a_campaign_with_such_a_bug_does_is_no_violation_without_it() -> None:
    for seed in range(1, 101):
        run = simulate(attrs.evolve(draw(seed, bug="kafka_6003"), bug=None))
        assert run.holds, f"seed {seed}: {run.failures}"


# --- a trace written by hand: producer 7 writes to broker 0, broker 1 follows and is started again --------------------


def batch(base: int, end: int, sequence: int, *, producer: int = 7, epoch: int = 0) -> LoggedBatch:
    return LoggedBatch(base, end, 0, 1000 * epoch + sequence, producer, epoch, sequence)


def memory(*batches: tuple[int, int, int], epoch: int = 0, forgot: bool = False) -> ProducerMemory:
    """Of producer 7: (last sequence, last offset, offset delta) of each."""
    known = tuple(RememberedBatch(*one) for one in batches)
    return ProducerMemory(forgot, (RememberedProducer(7, epoch, known),) if known else ())


def state(end: int, start: int = 0) -> events.ReplicaState:
    return events.ReplicaState(0, 0, 0, end, end, start, (0, 1), None, end)


FIRST, SECOND, THIRD = batch(0, 2, 0), batch(2, 3, 2), batch(3, 4, 3)
ONE, TWO = memory((1, 1, 1)), memory((1, 1, 1), (2, 2, 0))
THREE = memory((1, 1, 1), (2, 2, 0), (3, 3, 0))
FETCH = FollowerFetch(1, 2, 0, 0, -1, 0)


def append(one: LoggedBatch, known: ProducerMemory) -> events.Decision:
    size = one.end_offset - one.base_offset
    return events.Append("t", 0, state(one.end_offset), known, -1, one.base_offset, size, (one,))


def fetched(known: ProducerMemory, end: int, *batches: LoggedBatch, diverging: int | None = None) -> events.Decision:
    parted = None if diverging is None else EpochEndOffset(0, diverging)
    outcome = events.FetchOutcome(
        ErrorCode.none, parted, sum(b.end_offset - b.base_offset for b in batches), 0, 0, batches
    )
    return events.ReceiveFetchResponse("t", 0, state(end), known, 0, FETCH, outcome, accepted=True)


def restarted(known: ProducerMemory, *batches: LoggedBatch, start: int = 0) -> events.Decision:
    return events.Restart("t", 0, state(batches[-1].end_offset, start), known, batches, -1, "id")


REPEATED = events.AcknowledgeRepeat("t", 0, state(3), TWO, 0, (FIRST,))
TOO_EARLY = events.RefuseSequence("t", 0, state(3), TWO, (batch(0, 1, 9),), ErrorCode.out_of_order_sequence_number)
FORGOTTEN = events.ExpireProducers("t", 0, state(3), memory(forgot=True), (7,))
DIED = events.Crash({("t", 0): 3}, {}, {})
GOOD: tuple[tuple[int, events.Decision], ...] = (
    (0, append(FIRST, ONE)),
    (0, append(SECOND, TWO)),
    (0, REPEATED),
    (0, TOO_EARLY),
    (1, fetched(TWO, 3, FIRST, SECOND)),
    (1, DIED),
    (1, restarted(TWO, FIRST, SECOND)),
    (1, fetched(ONE, 2, diverging=2)),
    (1, fetched(TWO, 3, SECOND)),
    (0, FORGOTTEN),
    (0, append(THIRD, memory((3, 3, 0), forgot=True))),
    (1, fetched(THREE, 4, THIRD)),
)


# Of three batches the disk has taken the first, and told so; a snapshot may tell of it still.
DAMAGED = events.DamageFound((events.DamagedLog("t", 0, 0, 4),), is_suspect=True)
BEFORE: tuple[tuple[int, events.Decision], ...] = (
    (0, append(FIRST, ONE)),
    (0, append(SECOND, TWO)),
    (0, append(THIRD, THREE)),
    (0, DIED),
    (0, DAMAGED),
)


@pytest.mark.parametrize("known", [THREE, memory((2, 2, 0), (3, 3, 0)), memory((3, 3, 0))], ids=str)
def test_memory_of_a_damaged_log_may_lack_what_cannot_be_read(known: ProducerMemory) -> None:
    follow((*BEFORE, (0, restarted(known, SECOND, THIRD))))
    repaired = events.RepairReplica("t", 0, state(0), memory())
    follow((*BEFORE, (0, restarted(known, SECOND, THIRD)), (0, repaired), (0, fetched(ONE, 2, FIRST))))


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (TWO, "remembers epoch 0 .*, though its log can be read up to offset 3"),
        (memory(), "remembers nothing, though its log can be read up to offset 3"),
        (memory((3, 3, 1)), "3 at 2–3, which its log never had"),
        (memory((2, 2, 0), (3, 3, 0), (4, 4, 0)), "4 at 4–4, which its log never had"),
        (memory((3, 3, 0), epoch=1), "which its log never had"),
    ],
)
def test_memory_of_a_damaged_log_that_no_disk_explains_is_refused(known: ProducerMemory, told: str) -> None:
    with pytest.raises(Wrong, match=told):
        follow((*BEFORE, (0, restarted(known, SECOND, THIRD))))


def test_a_log_that_is_found_whole_is_remembered_whole() -> None:
    with pytest.raises(Wrong, match="ProducerStateMatchesLog"):
        follow((*BEFORE[:-1], (0, restarted(memory((3, 3, 0)), FIRST, SECOND, THIRD))))


def follow(trace: Sequence[tuple[int, events.Decision]]) -> None:
    remembering = Remembering()
    for node, decision in trace:
        remembering.follow(TraceEvent(0, node, decision), "t", 0)


def test_memory_that_is_what_the_log_says_is_followed() -> None:
    follow(GOOD)


def bad(place: int, decision: events.Decision) -> tuple[tuple[int, events.Decision], ...]:
    """The good trace up to there, with another decision in the end."""
    return (*GOOD[:place], (GOOD[place][0], decision))


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        (bad(0, append(SECOND, memory((2, 2, 0)))), "sequence 2 is appended, .* OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (bad(1, append(THIRD, THREE)), "sequence 3 is appended, the specification responds OUT_OF_ORDER"),
        (bad(2, append(batch(3, 5, 0), TWO)), "sequence 0 is appended, though the leader remembers it"),
        (bad(1, append(SECOND, memory((2, 2, 0)))), "remembers epoch 0 with the last sequences 2 at 2–2, the spec"),
        (bad(1, append(SECOND, memory((1, 1, 1), (2, 2, 1)))), "2 at 1–2, the specification epoch 0 .* 2 at 2–2"),
        (bad(1, append(SECOND, memory())), "of producer 7 the replica remembers nothing"),
        (bad(1, append(SECOND, TWO._replace(forgot=True))), "counts as one that may have forgotten a producer"),
        (bad(2, events.AcknowledgeRepeat("t", 0, state(3), TWO, 1, (FIRST,))), "at offset 1, the .* remembers it at 0"),
        (bad(2, events.AcknowledgeRepeat("t", 0, state(3), TWO, 3, (THIRD,))), "remembers it at None"),
        (
            bad(3, events.RefuseSequence("t", 0, state(3), TWO, (THIRD,), ErrorCode.invalid_producer_epoch)),
            "responds OK",
        ),
        (bad(3, events.RefuseSequence("t", 0, state(3), TWO, (FIRST,), ErrorCode.out_of_order_sequence_number)), "OK"),
        (bad(4, fetched(ONE, 3, FIRST, SECOND)), "remembers epoch 0 with the last sequences 1 at 0–1, the specif"),
        (bad(6, restarted(ONE, FIRST, SECOND)), "ProducerStateMatchesLog is violated: of producer 7"),
        (bad(6, restarted(THREE, FIRST, SECOND)), "its log from 0 on has sequence 0 of epoch 0 at 0–1, sequence 2"),
        (bad(6, restarted(memory((1, 1, 1), (2, 2, 0), epoch=1), FIRST, SECOND)), "ProducerStateMatchesLog"),
        (bad(7, fetched(TWO, 2, diverging=2)), "ProducerStateMatchesLog is violated"),
        (
            bad(9, events.ExpireProducers("t", 0, state(3), TWO, (7,))),
            "remembers epoch 0 .*, the specification nothing",
        ),
    ],
)
def test_memory_that_is_another_is_found_where_it_is(trace: Sequence[tuple[int, events.Decision]], told: str) -> None:
    follow(trace[:-1])
    with pytest.raises(Wrong, match=told):
        follow(trace)


def test_a_batch_is_in_a_log_twice_only_where_its_producer_is_forgotten() -> None:
    again = batch(3, 5, 0)
    newer = memory((0, 2, 0), epoch=1)
    left = (GOOD[0], (0, append(batch(2, 3, 0, epoch=1), newer)))
    with pytest.raises(Wrong, match="responds INVALID_PRODUCER_EPOCH"):
        follow((*left, (0, append(again, newer))))
    follow((*GOOD[:2], (0, FORGOTTEN), (0, append(again, memory((1, 4, 1), forgot=True)))))


def test_a_restart_may_lack_producers_whose_records_are_deleted_and_no_others() -> None:
    follow((*GOOD[:6], (1, restarted(memory((2, 2, 0)), SECOND, start=2))))
    with pytest.raises(Wrong, match="ProducerStateMatchesLog"):
        follow((*GOOD[:6], (1, restarted(memory(), SECOND, start=2))))


# --- transactions: producer 7 writes two batches, and its coordinator a marker ---------------------------------------


def part(base: int, end: int, sequence: int, epoch: int = 0) -> LoggedBatch:
    return batch(base, end, sequence, epoch=epoch)._replace(is_transactional=True, is_marker=sequence < 0)


def known(*batches: tuple[int, int, int], open_from: int = -1, epoch: int = 0) -> ProducerMemory:
    remembered = tuple(RememberedBatch(*one) for one in batches)
    return ProducerMemory(False, (RememberedProducer(7, epoch, remembered, open_from),))


def at(decision: events.Decision, stable: int, high_watermark: int | None = None) -> events.Decision:
    """The decision with this last stable offset."""
    assert isinstance(decision, events.OfLog)
    fields = {name: getattr(decision, name) for name in decision.fields}
    now = decision.state
    hw = now.high_watermark if high_watermark is None else high_watermark
    return type(decision)(**{**fields, "state": attrs.evolve(now, last_stable_offset=stable, high_watermark=hw)})


BEGUN, MORE, MARKER = part(0, 2, 0), part(2, 3, 2), part(3, 4, -1, epoch=1)
OPEN, STILL, OVER = known((1, 1, 1), open_from=0), known((1, 1, 1), (2, 2, 0), open_from=0), known(epoch=1)
TRANSACTION: tuple[tuple[int, events.Decision], ...] = (
    (0, at(append(BEGUN, OPEN), 0)),
    (0, at(append(MORE, STILL), 0)),
    (1, at(fetched(STILL, 3, BEGUN, MORE), 0)),
    (0, at(append(MARKER, OVER), 0, high_watermark=3)),
    (1, at(fetched(OVER, 4, MARKER), 4)),
    (1, at(fetched(OVER, 4), 3, high_watermark=3)),
    (1, DIED),
    (1, at(restarted(OVER, BEGUN, MORE, MARKER), 4)),
    (0, at(append(part(4, 5, 0, epoch=1), known((0, 4, 0), open_from=4, epoch=1)), 4)),
)


def test_a_transaction_and_its_marker_are_followed_also_where_a_high_watermark_steps_back() -> None:
    follow(TRANSACTION)


@pytest.mark.parametrize(
    ("place", "decision", "told"),
    [
        (0, at(append(BEGUN, OPEN), 2), "the last stable offset is 2, the specification's 0"),
        (0, at(append(BEGUN, known((1, 1, 1))), 0), "is open from -1, in the specification from 0"),
        (3, at(append(MARKER, OVER), 3, high_watermark=3), "last stable offset is 3, the specification's 0"),
        (3, at(append(MARKER, STILL), 0, high_watermark=3), "remembers epoch 0 .*, the specification epoch 1 with no"),
        (3, at(append(part(3, 4, -1), OVER), 0), "remembers epoch 1 with no sequence, the specification epoch 0"),
        (8, at(append(part(4, 5, -1), OVER), 4), "the marker of producer 7, epoch 0, .* INVALID_PRODUCER_EPOCH"),
        (5, at(fetched(OVER, 4), 1, high_watermark=3), "last stable offset is 1, the specification's 0 or 3"),
        (7, at(restarted(STILL, BEGUN, MORE, MARKER), 4), "ProducerStateMatchesLog is violated.*ends it with epoch 1"),
        (8, at(append(part(4, 5, 3, epoch=1), OVER), 4), "sequence 3 is appended, .* OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ],
)
def test_what_a_marker_does_not_do_is_found_where_it_is(place: int, decision: events.Decision, told: str) -> None:
    with pytest.raises(Wrong, match=told):
        follow((*TRANSACTION[:place], (TRANSACTION[place][0], decision)))


# --- lines ------------------------------------------------------------------------------------------------------------


def decisions(line: Sequencing) -> Iterator[None]:
    """Two batches, the first to a leader that has been deposed."""
    first = line.send(2, 0)
    yield
    line.send(1, 1)
    yield
    line.complete(first, 0, ErrorCode.not_leader_or_follower)
    line.retry(first, 1)
    line.complete(first, 1, ErrorCode.none)
    line.give_up()
    line.send(3, 1)
    yield


@pytest.mark.parametrize(("kind", "max_in_flight"), [(Sequencing, 2), (Sequencing, 1), (InFlightByConnection, 1)])
def test_a_line_is_in_step_unless_it_sends_what_has_to_wait(kind: type[Sequencing], max_in_flight: int) -> None:
    lines = Lines(kind, sequences=41)
    line = lines.line("producer-0", max_in_flight)
    for _ in decisions(line):
        pass
    found = [] if max_in_flight == 2 else [lines.findings[0]]
    assert lines.findings == found
    assert all("producer 0 has to wait for what is in flight" in one for one in found)
    assert lines.begun_again == 1


class ForgetsToWait(Sequencing):
    """Takes no batch for one that may be overtaken."""

    def send(self, count: int, leader: int) -> object:  # type: ignore[override]
        batch = super().send(count, leader)
        batch.behind = False
        return batch


def test_a_line_that_is_another_than_the_specifications_is_found() -> None:
    lines = Lines(ForgetsToWait, sequences=41)
    for _ in decisions(lines.line("producer-0", 5)):
        pass
    assert "the specification's producer at" in lines.findings[0]


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ([1, 9, 2, 4], []),
        ([2, 4], []),
        ([1, 2, 9, 1], ["one: the log has 1 2 times"]),
        ([2, 1, 4], ["one: the log has [2, 1, 4] of what was sent as [1, 2, 3, 4]"]),
    ],
)
def test_records_are_in_a_log_once_and_in_the_order_of_their_line(log: list[int], told: list[str]) -> None:
    assert list(out_of_order({"one": [1, 2, 3, 4], "other": [9]}, log)) == told
