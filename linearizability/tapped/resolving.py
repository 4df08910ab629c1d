"""The histories of a recording: what its lines amount to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import attrs

from tidegauge.linearizability.history import Operation, Operations
from tidegauge.linearizability.tapped import groups as of_groups
from tidegauge.linearizability.tapped import transactions as of_transactions
from tidegauge.linearizability.tapped.attempts import Produce, produces
from tidegauge.linearizability.tapped.groups import Group, groups
from tidegauge.linearizability.tapped.lines import (
    Assigned,
    Committed,
    Ended,
    Fetched,
    Found,
    Line,
    Listed,
    Remark,
    Sent,
)
from tidegauge.linearizability.tapped.logs import (
    Partition,
    pieces,
    rows_of_fetches,
    rows_of_lists,
    rows_of_sends,
    sent_by_others,
    strange,
)
from tidegauge.linearizability.tapped.naming import Sightings
from tidegauge.linearizability.tapped.numbering import Numbering, indexed
from tidegauge.linearizability.tapped.reading import Reader
from tidegauge.linearizability.tapped.transactions import Transactions

Place = tuple[str, int]


@attrs.frozen(eq=False)
class Resolved:
    """The histories of a recording, and what has to be said of it besides."""

    operations: Operations
    others: int
    """Records that were read, and that nobody has sent through the tap."""
    remarks: tuple[str, ...]
    """What is not in the histories, in words."""


def resolve(reader: Reader) -> Resolved:
    """The histories of what a reader has read."""
    return resolved(reader.lines.values(), alone=reader.alone)


def resolved(lines: Iterable[Line], *, alone: bool = False) -> Resolved:
    """The histories of these lines. `alone`: nobody else has sent a record, so that a strange one is an anomaly."""
    sorted_lines = _Sorted.of(lines)
    alone = alone and not sorted_lines.sends_unread
    numbering = Numbering()
    rows: list[Operation] = []
    others = 0
    touched = sorted_lines.with_transactions()
    for topic, partitions in sorted(sorted_lines.by_topic().items()):
        if topic not in touched:
            found, others_sent = _log_rows(partitions, topic in sorted_lines.compacted, numbering, alone=alone)
            rows += found
            others += others_sent
    members = groups(sorted_lines.assigned, sorted_lines.commits, sorted_lines.found)
    for group in members:
        if not group.in_transactions:
            rows += of_groups.indexed([of_groups.rows_of(group, None)], (), numbering.history())
    inside = [group for group in members if group.in_transactions]
    if touched or inside:
        found, others_sent = _transaction_rows(sorted_lines, touched, inside, numbering, alone=alone)
        rows += found
        others += others_sent
    return Resolved(Operations.of(rows), others, tuple(sorted_lines.remarks))


def _log_rows(
    partitions: Iterable[Partition], compacted: bool, numbering: Numbering, *, alone: bool
) -> tuple[list[Operation], int]:
    """The rows of a topic without transactions, and how many records others have sent."""
    whole: list[Operation] = []
    more: list[Operation] = []
    others = 0
    for partition in partitions:
        rows = rows_of_sends(partition, Sightings.of(partition.fetches))
        found = strange(rows, partition)
        rows += rows_of_fetches(partition, numbering, compacted=compacted)
        rows += rows_of_lists(partition)
        others += len(found)
        if alone and not partition.unread:
            whole += rows
            continue
        rows += sent_by_others(partition, found, numbering)
        first, *apart = pieces(partition, rows, numbering)
        whole += first
        for one in apart:
            more += indexed(one, numbering.history())
    return [*indexed(whole, numbering.history()), *more], others


def _transaction_rows(
    lines: _Sorted, touched: frozenset[str], members: Sequence[Group], numbering: Numbering, *, alone: bool
) -> tuple[list[Operation], int]:
    """The rows of all topics with transactions, and of the groups that commit in them, which are one history.

    And how many records others have sent.
    """
    done = [one for one in lines.sends if one.transactional and one.producer is not None]
    committed = [one for one in lines.commits if one.producer is not None]
    transactions = Transactions.found([*done, *committed, *lines.ends], numbering)
    rows: list[Operation] = []
    others = 0
    for topic, partitions in sorted(lines.by_topic().items()):
        for partition in partitions if topic in touched else ():
            sends = rows_of_sends(partition, Sightings.of(partition.fetches))
            found = strange(sends, partition)
            rows += of_transactions.within(sends, partition, transactions)
            rows += rows_of_fetches(partition, numbering, compacted=topic in lines.compacted)
            rows += rows_of_lists(partition)
            others += len(found)
            if not alone or partition.unread:
                rows += of_transactions.sent_by_others(partition, found, transactions)
    rows += transactions.ends()
    of_members = [of_groups.rows_of(group, transactions) for group in members]
    return of_groups.indexed(of_members, rows, numbering.history()), others


@attrs.define(eq=False)
class _Sorted:
    """Lines by what they are."""

    sends: list[Sent] = attrs.field(factory=list)
    fetches: list[Fetched] = attrs.field(factory=list)
    lists: list[Listed] = attrs.field(factory=list)
    ends: list[Ended] = attrs.field(factory=list)
    commits: list[Committed] = attrs.field(factory=list)
    assigned: list[Assigned] = attrs.field(factory=list)
    found: list[Found] = attrs.field(factory=list)
    compacted: set[str] = attrs.field(factory=set)
    remarks: list[str] = attrs.field(factory=list)
    sends_unread: bool = False

    @classmethod
    def of(cls, lines: Iterable[Line]) -> _Sorted:
        found = cls()
        for line in lines:
            match line:
                case Sent():
                    found.sends.append(line)
                case Fetched():
                    found.fetches.append(line)
                    if line.compacted:
                        found.compacted.add(line.topic)
                case Listed():
                    found.lists.append(line)
                case Ended():
                    found.ends.append(line)
                case Committed():
                    found.commits.append(line)
                case Assigned():
                    found.assigned.append(line)
                case Found():
                    found.found.append(line)
                case Remark(topic=str(topic)):
                    found.compacted.add(topic)
                case Remark(text=str(text)):
                    found.remarks.append(text)
                    found.sends_unread |= line.sends
        return found

    def with_transactions(self) -> frozenset[str]:
        """The topics that transactions write to."""
        sent = {one.topic for one in self.sends if one.transactional}
        return frozenset(sent | {one.topic for one in self.fetches if one.transactional})

    def by_topic(self) -> dict[str, list[Partition]]:
        """What was done to each partition."""
        found: dict[Place, Partition] = {}

        def of(topic: str, partition: int) -> Partition:
            return found.setdefault((topic, partition), Partition(topic, partition))

        sends: list[Produce] = produces(self.sends)
        for one in sends:
            of(one.sent.topic, one.sent.partition).produces.append(one)
        for fetch in self.fetches:
            of(fetch.topic, fetch.partition).fetches.append(fetch)
        for listed in self.lists:
            of(listed.topic, listed.partition).lists.append(listed)
        for sent in self.sends:
            if not sent.values:
                of(sent.topic, sent.partition).unread = True
        topics: dict[str, list[Partition]] = defaultdict(list)
        for (topic, _), partition in sorted(found.items()):
            topics[topic].append(partition)
        return topics
