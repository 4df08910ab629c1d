"""What a log of a walk never has behind an open transaction, taken in by copies of what its replica remembers.

A producer of the machine sends one record of a transaction to a partition, and what ends one is a whole marker. A log
of Kafka has more: further records, control records that are no markers, markers of which the cleaner has taken the
record, and those that a group's coordinator of an old version has sent, without an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Final

from tidegauge.impl.partition.producer_state import (
    DEFAULT_EXPIRATION_MS,
    NO_OFFSET,
    ProducerEntry,
    ProducerStates,
)
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.partition.verification import Verifications
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.markers import (
    ABORT_MARKER,
    COMMIT_MARKER,
    UNKNOWN_COORDINATOR_EPOCH,
    MarkerRecord,
    TransactionMarker,
    build_marker,
)
from tidegauge.model_tests.harness.cores.asked_producers import copied
from tidegauge.model_tests.harness.cores.transaction_abstraction import produced
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.partition_rules import PartitionRules
from tidegauge.spec.transactions.state import Partition, ProduceRequest

NO_MARKERS: Final = (MarkerRecord(2, 7), MarkerRecord(6, 7))
"""Control records that say something else: of a leader's change, of voters."""
LATER: Final = 7
"""By so much a marker's coordinator is newer than the one that is known."""


def forgotten_while_open(name: str, states: ProducerStates) -> Iterator[Change]:
    """Where the end of a time leaves others than the producers with an open transaction; batches here are of time 0."""
    one, wanted = copied(states), set(states.transactions.open)
    one.expire(DEFAULT_EXPIRATION_MS)
    if one.entries.keys() != wanted:
        yield Change(f"{name}: who stays that has been idle for long", wanted, set(one.entries))


def old_otherwise(name: str, verifications: Verifications) -> Iterator[Change]:
    """Where a verification is not forgotten the second time that old ones are, or is the first time."""
    one = Verifications()
    for asked in verifications:
        one.confirm(one.begin(asked.producer_id, asked.epoch))
    every = list(one)
    for turn, wanted in enumerate((every, [])):
        one.forget_old()
        if (found := list(one)) != wanted:
            yield Change(f"{name}: verifications that are left {turn + 1} times later", wanted, found)


def stable_otherwise(
    name: str, rules: PartitionRules, leader: PartitionReplica, expected: Partition
) -> Iterator[Change]:
    """Where readers of committed records would stop otherwise if less were committed."""
    one = copy(leader)
    for high_watermark in range(leader.log.log_start_offset, expected.high_watermark):
        one.high_watermark = high_watermark
        wanted = rules.last_stable_offset(evolve(expected, high_watermark=high_watermark))
        if (found := one.last_stable_offset) != wanted:
            yield Change(f"{name}: last stable offset at high watermark {high_watermark}", wanted, found)


def taken_in_otherwise(name: str, states: ProducerStates) -> Iterator[Change]:
    """Where the replica would know otherwise what is open behind one batch more of the first open transaction."""
    for producer_id in list(states.transactions.open)[:1]:
        entry, end = states.entries[producer_id], states.end_offset
        first, known = entry.current_txn_first_offset, entry.coordinator_epoch
        stays, ends = (first, known), (NO_OFFSET, known)
        request = ProduceRequest(0, producer_id, entry.epoch, 0, entry.last_sequence + 1, 0, 2)
        record = BatchHeader.parse(produced(request))
        yield from _behind(f"{name}, a further record", states, entry, record, None, stays, None)
        control = TransactionMarker(producer_id, entry.epoch, True, known)
        header = BatchHeader.parse(build_marker(control, 0))
        for other in NO_MARKERS:
            yield from _behind(f"{name}, {other}", states, entry, header, other, stays, None)
        yield from _behind(f"{name}, a cleaned marker", states, entry, header, None, ends, None)
        following = next((one for of, one in states.transactions.open.items() if of != producer_id), end + 1)
        aborted = AbortedTransaction(producer_id, first, end, following)
        for kind, listed in ((COMMIT_MARKER, None), (ABORT_MARKER, aborted)):
            for told, epoch in ((UNKNOWN_COORDINATOR_EPOCH, known), (known + LATER, known + LATER)):
                marker = MarkerRecord(kind, told)
                yield from _behind(f"{name}, {marker}", states, entry, header, marker, (NO_OFFSET, epoch), listed)


def _behind(
    name: str,
    states: ProducerStates,
    entry: ProducerEntry,
    header: BatchHeader,
    marker: MarkerRecord | None,
    wanted: tuple[int, int],
    aborted: AbortedTransaction | None,
) -> Iterator[Change]:
    """Where it is open from, or of which coordinator's epoch, otherwise than is wanted; and what the index gets."""
    one, producer_id = copied(states), entry.producer_id
    listed = one.take_in(header, states.end_offset, marker)
    after, is_open = one.entries[producer_id], wanted[0] != NO_OFFSET
    found = after.current_txn_first_offset, after.coordinator_epoch
    if found != wanted or listed != aborted or (producer_id in one.transactions.open) != is_open:
        yield Change(name, (wanted, aborted), (found, listed))
