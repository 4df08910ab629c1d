"""The coordinator's core: one record pending of an id, nothing before it is committed, the log as the truth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import LONGEST_STRING
from tidegauge.impl.coordinators.transactions.coordinator import TransactionConfig, TransactionCoordinator
from tidegauge.impl.coordinators.transactions.messages import (
    AddPartitions,
    Append,
    Committed,
    EndTxn,
    InitProducerId,
    ListedTransaction,
    Marker,
    Outcome,
    Outstanding,
    ProducerGiven,
    ProducerIdNeeded,
    Respond,
    TransactionFilter,
    VerifyPartitions,
)
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition, TransactionMetadata, TransactionStatus
from tidegauge.impl.records.slices import at_once
from tidegauge.model_tests.bugs.transactions.kafka_8803 import TakesInNothingEarlier
from tidegauge.model_tests.bugs.transactions.kafka_9777 import LooksWhereNothingLoads

ID = "tide-tables"
FIRST, SECOND = TopicPartition("tide", 0), TopicPartition("tide", 1)
TIMEOUT_MS = 60_000
DEFAULTS = TransactionConfig()
Response = TypeVar("Response")


def found(looked_at: Iterable[Append[None] | None]) -> list[Append[None]]:
    """What a sweep appends."""
    return [one for one in looked_at if one is not None]


def together(each: Iterable[Outstanding]) -> Outstanding:
    """What all ids have outstanding."""
    listed = list(each)
    return Outstanding([m for one in listed for m in one.markers], [a for one in listed for a in one.appends])


class Coordinating:
    """A coordinator of every partition, the log that it writes, and what it is to do besides."""

    def __init__(
        self, config: TransactionConfig = DEFAULTS, core: type[TransactionCoordinator] = TransactionCoordinator
    ) -> None:
        self.core = core(config)
        self.log: list[tuple[bytes | None, bytes | None]] = []
        self.now_ms = 1_000
        self.leader_epoch = 0
        self.markers: list[Marker] = []
        self.elect()

    @property
    def partition(self) -> int:
        return self.core.partition_of(ID)

    def elect(self) -> Outstanding:
        """A new leader epoch, and the log read from its beginning."""
        self.leader_epoch += 1
        self.core.begin_loading(self.partition, self.leader_epoch)
        at_once(self.core.load(self.partition, self.leader_epoch, self.log))
        known = together(self.core.outstanding(self.partition, self.now_ms))
        self.markers = list(known.markers)
        return known

    def done(self, outcome: Outcome[Response]) -> Response:
        """The response, once all that is to be written is committed."""
        assert not isinstance(outcome, ProducerIdNeeded)
        if isinstance(outcome, Append):
            assert self.commit(outcome).error is ErrorCode.none
        return outcome.response

    def commit(self, append: Append[object]) -> Committed:
        self.log.append((append.key, append.value))
        committed = self.core.committed(append, self.now_ms)
        self.markers += committed.outstanding.markers
        for follows in committed.outstanding.appends:
            self.commit(follows)
        return committed

    def write_markers(self) -> None:
        for marker in self.markers:
            for partition in sorted(marker.partitions):
                if (complete := self.core.marker_written(marker, {partition}, self.now_ms)) is not None:
                    self.commit(complete)
        self.markers = []

    def init(self, producer_id: int = -1, epoch: int = -1, new_id: int = 7) -> ProducerGiven:
        request = InitProducerId(ID, TIMEOUT_MS, producer_id, epoch)
        return self.done(self.core.init_producer_id(request, self.now_ms, new_id))

    def add(self, *partitions: TopicPartition, producer_id: int = 7, epoch: int = 0) -> ErrorCode:
        request = AddPartitions(ID, producer_id, epoch, frozenset(partitions), 2)
        return self.done(self.core.add_partitions(request, self.now_ms))

    def end(self, epoch: int = 0, *, commit: bool = True, producer_id: int = 7, version: int = 2) -> ProducerGiven:
        return self.done(self.core.end(EndTxn(ID, producer_id, epoch, commit, version), self.now_ms, 99))

    def known(self) -> TransactionMetadata:
        metadata = self.core.describe(ID).metadata
        assert metadata is not None
        return metadata


def given(producer_id: int, epoch: int) -> ProducerGiven:
    return ProducerGiven(ErrorCode.none, producer_id, epoch)


def test_a_transaction_from_its_producer_id_to_its_complete_record() -> None:
    one = Coordinating()
    assert isinstance(one.core.init_producer_id(InitProducerId(ID, TIMEOUT_MS), one.now_ms), ProducerIdNeeded)
    assert one.init() == given(7, 0)
    assert one.add(FIRST, SECOND) is ErrorCode.none
    assert one.end() == given(7, 1)
    assert one.known().status is TransactionStatus.PREPARE_COMMIT
    (marker,) = one.markers
    assert marker == Marker(ID, one.partition, 1, 7, 1, True, 2, frozenset({FIRST, SECOND}))
    one.write_markers()
    assert one.known().status is TransactionStatus.COMPLETE_COMMIT
    assert one.known().partitions == frozenset()


def test_nothing_changes_before_the_record_is_committed_and_others_wait() -> None:
    one = Coordinating()
    one.init()
    request = AddPartitions(ID, 7, 0, frozenset({FIRST}), 2)
    pending = one.core.add_partitions(request, one.now_ms)
    assert isinstance(pending, Append)
    assert one.known().status is TransactionStatus.EMPTY
    concurrent = ErrorCode.concurrent_transactions
    assert one.core.add_partitions(request, one.now_ms) == Respond(concurrent)
    assert one.init().error is concurrent
    assert one.end().error is concurrent
    assert found(one.core.overdue(one.now_ms + 10 * TIMEOUT_MS)) == []
    one.core.failed(pending)
    assert one.known().status is TransactionStatus.EMPTY
    assert one.add(FIRST) is ErrorCode.none


def test_what_became_of_an_earlier_record_says_nothing_of_the_one_that_is_pending() -> None:
    one = Coordinating()
    one.init()
    earlier = one.core.add_partitions(AddPartitions(ID, 7, 0, frozenset({FIRST}), 2), one.now_ms)
    assert isinstance(earlier, Append)
    one.commit(earlier)
    pending = one.core.add_partitions(AddPartitions(ID, 7, 0, frozenset({SECOND}), 2), one.now_ms)
    assert isinstance(pending, Append)
    assert one.core.committed(earlier, one.now_ms) == Committed(ErrorCode.not_coordinator)
    one.core.failed(earlier)
    assert one.known().partitions == {FIRST}
    one.commit(pending)
    assert one.known().partitions == {FIRST, SECOND}


def test_an_id_whose_first_record_fails_is_not_known() -> None:
    one = Coordinating()
    pending = one.core.init_producer_id(InitProducerId(ID, TIMEOUT_MS), one.now_ms, 7)
    assert isinstance(pending, Append)
    assert one.core.describe(ID).error is ErrorCode.transactional_id_not_found
    one.core.failed(pending)
    assert not one.core.partitions[one.partition].ids
    assert one.add(FIRST) is ErrorCode.invalid_producer_id_mapping
    assert one.init() == given(7, 0)


def test_a_record_that_is_committed_after_a_new_election_is_told_not_coordinator() -> None:
    one = Coordinating()
    one.init()
    pending = one.core.add_partitions(AddPartitions(ID, 7, 0, frozenset({FIRST}), 2), one.now_ms)
    assert isinstance(pending, Append)
    one.elect()
    assert one.core.committed(pending, one.now_ms) == Committed(ErrorCode.not_coordinator)
    assert one.known().status is TransactionStatus.EMPTY
    one.core.resign(one.partition, one.leader_epoch)
    assert one.core.committed(pending, one.now_ms) == Committed(ErrorCode.not_coordinator)
    assert one.add(FIRST) is ErrorCode.not_coordinator
    assert one.core.describe(ID).error is ErrorCode.not_coordinator
    assert not list(one.core.outstanding(one.partition, one.now_ms))


def test_while_a_partition_loads_its_ids_are_told_so() -> None:
    one = Coordinating()
    one.init()
    one.core.begin_loading(one.partition, 5)
    loading = ErrorCode.coordinator_load_in_progress
    assert one.init().error is loading
    assert at_once(one.core.list_transactions(TransactionFilter(), one.now_ms)).error is loading
    at_once(one.core.load(one.partition, 4, one.log))
    assert not list(one.core.outstanding(one.partition, one.now_ms))
    assert one.init().error is loading, "that load was of another election"
    one.core.resign(one.partition, 4)
    one.core.begin_loading(one.partition, 3)
    assert one.init().error is loading, "what is older than the election changes nothing"
    at_once(one.core.load(one.partition, 5, one.log))
    assert one.init() == given(7, 1)


def test_a_new_coordinator_writes_all_markers_again_and_completes_what_has_none() -> None:
    one = Coordinating()
    one.init()
    one.add(FIRST, SECOND)
    one.end()
    (marker,) = one.markers
    one.core.marker_written(marker, {FIRST}, one.now_ms)
    assert one.core.unmarked(marker) == {SECOND}
    (again,) = one.elect().markers
    assert again == marker._replace(coordinator_epoch=2)
    assert one.core.unmarked(marker) == frozenset(), "the older coordinator's"
    assert one.core.marker_written(marker, {FIRST, SECOND}, one.now_ms) is None
    one.write_markers()
    assert one.known().status is TransactionStatus.COMPLETE_COMMIT
    assert one.init() == given(7, 2)
    assert one.end(2, commit=False) == given(7, 3), "an abort without a partition raises the epoch"
    assert one.known().status is TransactionStatus.COMPLETE_ABORT
    one.log.pop()
    (complete,) = one.elect().appends
    one.commit(complete)
    assert one.known().status is TransactionStatus.COMPLETE_ABORT


@pytest.mark.parametrize(
    ("core", "status", "told"),
    [
        (TransactionCoordinator, TransactionStatus.COMPLETE_COMMIT, ErrorCode.none),
        (LooksWhereNothingLoads, TransactionStatus.PREPARE_COMMIT, ErrorCode.concurrent_transactions),
    ],
)
def test_a_transaction_completes_while_another_partition_of_the_log_loads(
    core: type[TransactionCoordinator], status: TransactionStatus, told: ErrorCode
) -> None:
    """Where it does not, its producer's InitProducerId is refused for ever (KAFKA-9777)."""
    one = Coordinating(core=core)
    one.init()
    one.add(FIRST, SECOND)
    one.end()
    other = (one.partition + 1) % DEFAULTS.partitions
    one.core.begin_loading(other, 1)
    one.write_markers()
    at_once(one.core.load(other, 1, []))
    assert one.known().status is status
    assert one.init().error is told


@pytest.mark.parametrize(
    ("core", "status", "told"),
    [
        (TransactionCoordinator, TransactionStatus.ONGOING, ErrorCode.none),
        (TakesInNothingEarlier, TransactionStatus.COMPLETE_COMMIT, ErrorCode.concurrent_transactions),
    ],
)
def test_a_transaction_that_begins_before_the_last_one_did_is_known_all_the_same(
    core: type[TransactionCoordinator], status: TransactionStatus, told: ErrorCode
) -> None:
    """The clock was set back in between; where the record is not taken in, its id is busy for ever (KAFKA-8803)."""
    one = Coordinating(core=core)
    one.init()
    one.add(FIRST)
    one.end()
    one.write_markers()
    one.now_ms -= 500
    assert one.add(FIRST, epoch=1) is ErrorCode.none
    assert one.known().status is status
    assert one.add(SECOND, epoch=1) is told


def test_a_complete_record_that_fails_is_made_again() -> None:
    one = Coordinating()
    one.init()
    one.add(FIRST)
    one.end()
    (marker,) = one.markers
    complete = one.core.marker_written(marker, {FIRST}, one.now_ms)
    assert complete is not None
    assert list(one.core.outstanding(one.partition, one.now_ms)) == [Outstanding()]
    one.core.failed(complete)
    (again,) = one.core.outstanding_of(one.partition, ID, one.now_ms).appends
    assert again.value == complete.value
    one.commit(again)
    assert one.known().status is TransactionStatus.COMPLETE_COMMIT


def test_only_partitions_of_the_open_transaction_are_verified() -> None:
    one = Coordinating()
    request = VerifyPartitions(ID, 7, 0, frozenset({FIRST, SECOND}))
    assert set(one.core.verify_partitions(request).values()) == {ErrorCode.invalid_producer_id_mapping}
    one.init()
    one.add(FIRST)
    abortable = ErrorCode.transaction_abortable
    assert one.core.verify_partitions(request) == {FIRST: ErrorCode.none, SECOND: abortable}
    assert one.core.verify_partitions(request._replace(epoch=1))[FIRST] is ErrorCode.producer_fenced
    assert isinstance(one.core.add_partitions(AddPartitions(ID, 7, 0, frozenset({SECOND}), 2), one.now_ms), Append)
    assert one.core.verify_partitions(request) == {FIRST: ErrorCode.none, SECOND: abortable}, "not committed yet"


def test_time_outs_are_held_to_the_settings() -> None:
    one = Coordinating(TransactionConfig(max_timeout_ms=10, allows_two_phase=False))
    for timeout_ms, is_taken in [(0, False), (11, False), (1, True), (10, True)]:
        outcome = one.core.init_producer_id(InitProducerId(f"{ID}-{timeout_ms}", timeout_ms), 0, 7)
        assert (outcome != Respond(ProducerGiven(ErrorCode.invalid_transaction_timeout))) is is_taken
    outcome = one.core.init_producer_id(InitProducerId(ID, 11, enables_two_phase=True), 0, 7)
    assert outcome == Respond(ProducerGiven(ErrorCode.transactional_id_authorization_failed))
    refusal = Respond(ProducerGiven(ErrorCode.invalid_request))
    for name, refused in [("", True), ("é" * 16_384, True), ("é" * 16_383, False)]:  # the log has room for 32,767 bytes
        assert (one.core.init_producer_id(InitProducerId(name, 10), 0, 7) == refusal) is refused
    assert one.core.end(EndTxn("", 7, 0, True), 0) == Respond(ProducerGiven(ErrorCode.invalid_request))
    assert one.core.describe("").error is ErrorCode.invalid_request


def test_a_transaction_that_is_not_ended_in_time_is_aborted_under_a_new_epoch() -> None:
    one = Coordinating()
    one.init()
    one.add(FIRST)
    assert found(one.core.overdue(one.now_ms + TIMEOUT_MS)) == []
    (abort,) = found(one.core.overdue(one.now_ms + TIMEOUT_MS + 1))
    one.commit(abort)
    assert (one.known().status, one.known().epoch) == (TransactionStatus.PREPARE_ABORT, 1)
    assert one.end().error is ErrorCode.producer_fenced
    one.write_markers()
    assert found(one.core.overdue(one.now_ms + 10 * TIMEOUT_MS)) == []


def test_an_id_is_coordinated_where_the_log_has_it_though_the_topic_has_got_more_partitions() -> None:
    one = Coordinating()
    one.init()
    one.add(FIRST)
    before = one.partition
    one.core.config = attrs.evolve(DEFAULTS, partitions=DEFAULTS.partitions + 1)
    assert one.partition != before
    (abort,) = found(one.core.overdue(one.now_ms + TIMEOUT_MS + 1))
    assert abort.partition == before
    one.commit(abort)
    one.write_markers()
    one.core.config = DEFAULTS
    assert one.known().status is TransactionStatus.COMPLETE_ABORT
    one.core.config = attrs.evolve(DEFAULTS, partitions=DEFAULTS.partitions + 1)
    (tombstone,) = found(one.core.expired(one.now_ms + one.core.config.id_expiration_ms))
    assert (tombstone.partition, one.commit(tombstone).error) == (before, ErrorCode.none)


@pytest.mark.parametrize(("epoch", "rest"), [(32_766, 32_767), (32_767, 32_767)])
def test_after_the_last_epoch_but_one_the_producer_id_changes(epoch: int, rest: int) -> None:
    """A producer that has the largest epoch, by a bug of history, is not stuck with it."""
    one = Coordinating()
    one.init()
    one.add(FIRST)
    one.core.partitions[one.partition].ids[ID].cached = attrs.evolve(one.known(), epoch=epoch)
    assert one.end(epoch) == given(99, 0), "which is not in force before the markers are written"
    assert (one.known().producer_id, one.known().epoch) == (7, rest)
    assert one.add(FIRST, producer_id=99) is ErrorCode.concurrent_transactions
    assert one.markers[0].epoch == rest
    one.elect()
    one.write_markers()
    assert (one.known().producer_id, one.known().epoch) == (99, 0)
    assert one.end(32_766) == given(99, 0), "a repeat of the last end"
    assert one.end(32_765).error is ErrorCode.invalid_producer_id_mapping
    assert one.end(32_766, producer_id=8).error is ErrorCode.invalid_producer_id_mapping
    assert one.add(FIRST, producer_id=99) is ErrorCode.none


def test_a_producer_that_was_not_told_of_its_epoch_asks_again_also_after_a_new_election() -> None:
    one = Coordinating()
    one.init()
    for _ in range(2):
        assert one.init(7, 0) == given(7, 1)
        one.elect()
    assert one.init(7, 1) == given(7, 2)
    assert one.init(7, 0).error is ErrorCode.producer_fenced
    assert one.init() == given(7, 3)
    one.elect()
    assert one.init(7, 2).error is ErrorCode.producer_fenced, "another process has begun"


def test_a_producer_whose_epochs_are_used_up_asks_again_with_its_old_id() -> None:
    one = Coordinating()
    one.init()
    one.core.partitions[one.partition].ids[ID].cached = attrs.evolve(one.known(), epoch=32_766)
    for _ in range(2):
        assert one.init(7, 32_766, new_id=8) == given(8, 0)
        assert one.init(9, 32_766, new_id=10).error is ErrorCode.producer_fenced, "it never had this id"
        one.elect()


def test_a_transaction_that_a_database_decides_has_no_time_out() -> None:
    one = Coordinating(TransactionConfig(allows_two_phase=True))
    request = InitProducerId(ID, 1, enables_two_phase=True)
    assert one.done(one.core.init_producer_id(request, one.now_ms, 7)) == given(7, 0)
    one.add(FIRST)
    assert found(one.core.overdue(1 << 60)) == []
    kept = one.core.init_producer_id(request._replace(keeps_prepared=True), one.now_ms)
    assert one.done(kept) == given(7, 1)._replace(ongoing=(7, 0))
    assert one.known().status is TransactionStatus.ONGOING


def test_an_id_that_nobody_uses_expires_and_an_open_one_does_not() -> None:
    one = Coordinating(TransactionConfig(id_expiration_ms=100))
    one.init()
    assert found(one.core.expired(one.now_ms + 99)) == []
    one.add(FIRST)
    assert found(one.core.expired(one.now_ms + 100)) == []
    one.end()
    assert found(one.core.expired(one.now_ms + 100)) == []
    one.write_markers()
    (tombstone,) = found(one.core.expired(one.now_ms + 100))
    assert tombstone.value is None
    assert one.init().error is ErrorCode.concurrent_transactions
    one.commit(tombstone)
    assert one.core.describe(ID).error is ErrorCode.transactional_id_not_found
    assert one.core.partitions[one.partition].ids == {}
    assert found(one.core.expired(one.now_ms + 1_000)) == []
    one.elect()
    assert one.core.describe(ID).error is ErrorCode.transactional_id_not_found
    assert one.init(new_id=8) == given(8, 0)


def test_ids_are_listed_by_state_producer_id_and_duration() -> None:
    one = Coordinating()
    one.init()
    all_of_it = [ListedTransaction(ID, 7, "Empty")]

    def listed(wanted: TransactionFilter, after_ms: int = 0) -> list[ListedTransaction]:
        return list(at_once(one.core.list_transactions(wanted, one.now_ms + after_ms)).transactions)

    assert listed(TransactionFilter()) == all_of_it
    assert listed(TransactionFilter(frozenset({"Empty", "Ongoing"}))) == all_of_it
    assert listed(TransactionFilter(frozenset({"Ongoing"}))) == []
    assert listed(TransactionFilter(producer_ids=frozenset({7, 8}))) == all_of_it
    assert listed(TransactionFilter(producer_ids=frozenset({8}))) == []
    assert listed(TransactionFilter(duration_ms=0), after_ms=5) == [], "none is open"
    one.add(FIRST)
    assert listed(TransactionFilter(duration_ms=5), after_ms=5) == []
    assert listed(TransactionFilter(duration_ms=5), after_ms=6) == [ListedTransaction(ID, 7, "Ongoing")]
    unknown = at_once(one.core.list_transactions(TransactionFilter(frozenset({"Asleep"})), 0))
    assert (unknown.error, unknown.transactions, unknown.unknown_states) == (ErrorCode.none, [], ["Asleep"])


def test_an_id_is_not_listed_before_its_first_record_is_committed() -> None:
    one = Coordinating()
    pending = one.core.init_producer_id(InitProducerId(ID, TIMEOUT_MS), one.now_ms, 7)
    assert isinstance(pending, Append)
    assert at_once(one.core.list_transactions(TransactionFilter(), one.now_ms)).transactions == []
    one.commit(pending)
    assert at_once(one.core.list_transactions(TransactionFilter(), one.now_ms)).transactions != []


def test_nothing_is_listed_while_one_of_several_partitions_loads() -> None:
    one = Coordinating()
    one.core.begin_loading((one.partition + 1) % DEFAULTS.partitions, 1)
    listed = at_once(one.core.list_transactions(TransactionFilter(), one.now_ms))
    assert listed.error is ErrorCode.coordinator_load_in_progress


@pytest.mark.parametrize(
    ("length", "error"),
    [
        (0, ErrorCode.invalid_request),
        (1, ErrorCode.none),
        (LONGEST_STRING, ErrorCode.none),
        (LONGEST_STRING + 1, ErrorCode.invalid_request),
    ],
)
def test_a_transactional_id_is_as_short_and_as_long_as_a_record_has_room_for(length: int, error: ErrorCode) -> None:
    core = TransactionCoordinator(DEFAULTS)
    name = "x" * length
    core.begin_loading(core.partition_of(name), 1)
    at_once(core.load(core.partition_of(name), 1, []))
    asked = core.init_producer_id(InitProducerId(name, TIMEOUT_MS), 0, 7)
    assert not isinstance(asked, ProducerIdNeeded)
    assert asked.response.error is error


def test_under_transaction_version_0_values_have_kafkas_first_format() -> None:
    one = Coordinating(TransactionConfig(transaction_version=0))
    one.init()
    assert one.log[-1][1] is not None
    assert one.log[-1][1][:2] == b"\0\0"
    one.elect()
    assert one.init() == given(7, 1)


def test_a_partition_that_is_not_coordinated_has_nothing_outstanding() -> None:
    one = Coordinating()
    assert one.core.outstanding_of(one.partition + 1, ID, 0) == Outstanding()
    assert [*one.core.outstanding(one.partition + 1, 0)] == []
    one.core.begin_loading(one.partition, one.leader_epoch + 1)
    assert one.core.outstanding_of(one.partition, ID, 0) == Outstanding()
