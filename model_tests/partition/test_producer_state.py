"""What a leader responses an idempotent producer, batch by batch (KIP-98, KIP-185, KIP-360)."""

from __future__ import annotations

import pytest

from tidegauge.impl.partition.producer_state import (
    BatchMetadata,
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
    ProducerEntry,
    ProducerStates,
    RepeatedBatchError,
)
from tidegauge.impl.records.batches import BatchHeader, checked_headers
from tidegauge.impl.records.payload import NO_PRODUCER, ProducerIdentity, Record, build_batch

LAST_SEQUENCE = (1 << 31) - 1
DAY_MS = 24 * 60 * 60 * 1000


def batch(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, timestamp: int = 1_000, offset: int = 0
) -> BatchHeader:
    identity = NO_PRODUCER if producer < 0 else ProducerIdentity(producer, epoch, sequence)
    records = [Record(offset + n, timestamp, None, b"v") for n in range(count)]
    (header,) = checked_headers(build_batch(records, producer=identity))
    return header


def appended(*headers: BatchHeader) -> ProducerStates:
    """A log's memory after it admitted and appended these, one by one."""
    states = ProducerStates()
    for header in headers:
        states.admit([header])
        states.take_in(header, states.end_offset)
    return states


def repeat_of(states: ProducerStates, *headers: BatchHeader) -> tuple[int, int]:
    with pytest.raises(RepeatedBatchError) as caught:
        states.admit(headers)
    return caught.value.base_offset, caught.value.end_offset


def test_each_of_the_last_five_batches_is_known_where_it_is() -> None:
    batches = [batch(2 * n, 2) for n in range(7)]
    states = appended(*batches)
    for number in range(2, 7):
        assert repeat_of(states, batches[number]) == (2 * number, 2 * number + 2)
    with pytest.raises(OutOfOrderSequenceError, match="goes on at sequence 2, its last one here was 13"):
        states.admit([batches[1]])


def test_a_repeat_is_the_very_batch_and_not_part_of_it() -> None:
    states = appended(batch(0, 4))
    for other in (batch(0, 2), batch(2, 2), batch(0, 5)):
        with pytest.raises(OutOfOrderSequenceError):
            states.admit([other])


def test_a_gap_is_refused() -> None:
    with pytest.raises(OutOfOrderSequenceError):
        appended(batch(0)).admit([batch(2)])


def test_producers_are_told_apart() -> None:
    states = appended(batch(0, producer=1), batch(0, producer=2), batch(1, producer=1))
    assert repeat_of(states, batch(0, producer=2)) == (1, 2)
    states.admit([batch(1, producer=2)])


def test_an_older_epoch_is_fenced_and_a_later_one_begins_at_0() -> None:
    states = appended(batch(0), batch(1))
    with pytest.raises(OutOfOrderSequenceError, match="a new epoch must begin at 0"):
        states.admit([batch(2, epoch=1)])
    states.admit([batch(0, epoch=1)])
    states.take_in(batch(0, epoch=1), 2)
    with pytest.raises(InvalidProducerEpochError, match="fenced by its epoch 1"):
        states.admit([batch(2)])
    with pytest.raises(InvalidProducerEpochError):
        states.admit([batch(1)])
    assert repeat_of(states, batch(0, epoch=1)) == (2, 3)


def test_sequences_wrap_after_2_147_483_647() -> None:
    states = ProducerStates()
    states.take_in(batch(LAST_SEQUENCE - 1), 0)
    wrapping = batch(LAST_SEQUENCE, 3)
    states.admit([wrapping])
    states.take_in(wrapping, 1)
    assert states.entries[7].batches[-1] == BatchMetadata(1, 3, 2, 1_000)
    assert repeat_of(states, wrapping) == (1, 4)
    states.admit([batch(2)])
    with pytest.raises(OutOfOrderSequenceError):
        states.admit([batch(0)])


def test_a_new_producer_begins_at_0_where_nothing_can_have_been_forgotten() -> None:
    """KAFKA-15591: the first of two batches must not be lost because the second overtook it."""
    states = ProducerStates()
    with pytest.raises(OutOfOrderSequenceError, match="is new here and begins at sequence 3: it must begin at 0"):
        states.admit([batch(3)])
    states.admit([batch(0)])


def test_an_unknown_producer_goes_on_where_records_were_deleted_or_producers_have_expired() -> None:
    """KIP-360; Kafka 4 never responses UNKNOWN_PRODUCER_ID."""
    deleted = ProducerStates()
    deleted.log_start_offset = 5
    deleted.admit([batch(3)])
    expired = appended(batch(0, timestamp=0))
    assert expired.expire(DAY_MS - 1) == []
    assert expired.expire(DAY_MS) == [7]
    expired.admit([batch(1)])


def test_a_log_older_than_the_expiration_may_have_forgotten_somebody_before_a_restart() -> None:
    states = appended(batch(0, producer=1, timestamp=0), batch(0, producer=2, timestamp=DAY_MS))
    states.restart([states.entries[2]], 2, 0)
    states.oldest_timestamp = 0
    assert states.expire(DAY_MS) == []
    states.admit([batch(1, producer=1)])


def test_producers_begin_again_where_their_snapshot_ends() -> None:
    states = appended(batch(0, producer=1), batch(0, producer=2))
    states.restart([], 1, 1)
    assert (states.end_offset, states.log_start_offset, states.oldest_timestamp) == (1, 1, None)


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    states = ProducerStates()
    states.restart([ProducerEntry(7, 0, [], 0, 0, current_txn_first_offset=3)], 4, 0)
    assert states.expire(10 * DAY_MS) == []


def test_control_records_tell_of_a_producer_without_a_sequence() -> None:
    """A transaction's marker: a producer that is known by it only begins at 0."""
    records = [Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\0")]
    (marker,) = checked_headers(build_batch(records, producer=ProducerIdentity(7, 3, -1), control=True))
    states = ProducerStates()
    states.take_in(marker, 0)
    assert (states.entries[7].epoch, states.entries[7].last_sequence, states.entries[7].last_timestamp) == (3, -1, 5)
    states.admit([batch(0, epoch=3)])
    with pytest.raises(OutOfOrderSequenceError):
        states.admit([batch(1, epoch=3)])
    with pytest.raises(InvalidProducerEpochError):
        states.admit([batch(0, epoch=2)])
    states.take_in(batch(0, epoch=3), 1)
    states.take_in(marker, 2)
    assert repeat_of(states, batch(0, epoch=3)) == (1, 2)


def test_batches_without_a_producer_id_are_nobodys() -> None:
    states = appended(batch(-1, producer=-1), batch(-1, producer=-1))
    assert states.entries == {}
    assert states.end_offset == 2


def test_several_batches_are_admitted_one_behind_the_other_and_all_or_none() -> None:
    states = ProducerStates()
    states.admit([batch(0, 2), batch(2), batch(0, producer=8)])
    with pytest.raises(OutOfOrderSequenceError):
        states.admit([batch(0, 2), batch(3)])
    for header in (batch(0, 2), batch(2)):
        states.take_in(header, states.end_offset)
    assert repeat_of(states, batch(0, 2), batch(2)) == (0, 3)
    with pytest.raises(OutOfOrderSequenceError, match="1 of 2 batches were appended before"):
        states.admit([batch(2), batch(3)])


def test_admitting_changes_nothing() -> None:
    states = appended(batch(0))
    before = list(states.entries[7].batches)
    states.admit([batch(1)])
    assert states.entries[7].batches == before
    assert states.end_offset == 1


def test_memory_is_filled_up_with_what_lies_before_a_snapshots_batch() -> None:
    headers = [batch(n, offset=n) for n in range(8)]
    states = ProducerStates()
    states.restart([ProducerEntry(7, 0, [BatchMetadata(7, 7, 0, 1_000)], 1_000)], 8, 0)
    assert states.incomplete() == {7}
    states.fill(headers[5:])
    assert states.incomplete() == {7}
    states.fill(headers[:5])
    assert states.incomplete() == set()
    assert [known.last_offset for known in states.entries[7].batches] == [3, 4, 5, 6, 7]


def test_memory_that_reaches_back_to_an_epochs_first_batch_is_complete() -> None:
    states = ProducerStates()
    states.restart([ProducerEntry(7, 1, [BatchMetadata(1, 9, 1, 1_000)], 1_000)], 10, 0)
    assert states.incomplete() == set()


@pytest.mark.parametrize("offset", [LAST_SEQUENCE + 1, LAST_SEQUENCE + 5], ids=["as many", "more"])
def test_a_batch_that_begins_at_0_is_not_the_first_where_sequences_have_wrapped(offset: int) -> None:
    """Where so many records can have been before it, what lies before it in the log is looked at."""
    states = ProducerStates()
    states.restart([ProducerEntry(7, 0, [BatchMetadata(0, offset, 0, 1_000)], 1_000)], offset + 1, 0)
    assert states.incomplete() == {7}
    states.fill([batch(LAST_SEQUENCE)._replace(base_offset=offset - 1)])
    assert [known.last_sequence for known in states.entries[7].batches] == [LAST_SEQUENCE, 0]


def test_memory_of_a_producer_that_is_known_by_a_marker_alone_is_not_filled_up() -> None:
    states = ProducerStates()
    states.restart([ProducerEntry(7, 0, [], 1_000)], 8, 0)
    states.fill([batch(0)])
    assert states.entries[7].batches == []


def test_memory_is_not_filled_up_with_batches_of_other_producers_former_epochs_or_with_markers() -> None:
    own = batch(3, epoch=1)._replace(base_offset=9)
    states = ProducerStates()
    states.take_in(own, 9)
    before = batch(2, epoch=1)._replace(base_offset=5)
    marker = batch(2, epoch=1)._replace(base_offset=8, attributes=before.attributes | 0x20)
    assert marker.is_control
    states.fill([before, batch(2)._replace(base_offset=6), batch(2, producer=8)._replace(base_offset=7), marker])
    assert [known.base_offset for known in states.entries[7].batches] == [5, 9]
    assert set(states.entries) == {7}


def test_an_unknown_producer_may_have_a_past_as_soon_as_one_record_is_deleted() -> None:
    states = appended(batch(0))
    assert not states.accepts_unknown()
    states.log_start_offset = 1
    assert states.accepts_unknown()


def test_so_it_may_in_a_log_that_is_read_from_where_it_starts_behind_deleted_records() -> None:
    for start in (0, 5):
        states = ProducerStates()
        states.restart((), 8, start)
        assert states.accepts_unknown() is (start > 0)


def test_the_first_batch_dates_what_is_remembered() -> None:
    states = appended(batch(0, timestamp=1_000), batch(1, timestamp=9_000))
    assert states.oldest_timestamp == 1_000
