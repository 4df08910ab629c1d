"""Each anomaly of groups as a history that has it, and one that nearly has it and is valid."""

from __future__ import annotations

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.history import Operation, Operations, Outcome
from tidegauge.model_tests.linearizability.group_rows import GroupRow, Kind, history_of

Rows = list[GroupRow]
INFO, FAIL = Outcome.INFO, Outcome.FAIL


def member(process: int, generation: int, at: int = 0) -> GroupRow:
    return GroupRow(Kind.MEMBER, process, at, generation=generation)


def expect(partition: int, generation: int, at: int = 0) -> GroupRow:
    return GroupRow(Kind.EXPECT, 0, at, generation=generation, partition=partition)


def assign(
    process: int, generation: int, call: int, returned: int, partition: int = -1, *, of: int | None = None
) -> GroupRow:
    return GroupRow(Kind.ASSIGN, process, call, returned, generation, partition, member=of)


def release(process: int, partition: int, at: int) -> GroupRow:
    return GroupRow(Kind.RELEASE, process, at, partition=partition)


def commit(
    process: int, generation: int, call: int, returned: int, offset: int, outcome: Outcome = Outcome.OK, *, of: int = 0
) -> GroupRow:
    return GroupRow(Kind.COMMIT, process, call, returned, generation, of, offset, outcome=outcome)


def read(call: int, returned: int, found: int = -1, offset: int = -1) -> GroupRow:
    return GroupRow(Kind.READ, 9, call, returned, partition=0, offset=offset, commit=found)


def consumed(
    transaction: int, call: int, returned: int, offset: int, outcome: Outcome = Outcome.OK, *, generation: int = 1
) -> GroupRow:
    """A commit of an offset in a transaction."""
    return GroupRow(
        Kind.COMMIT, transaction, call, returned, generation, 0, offset, outcome=outcome, transaction=transaction
    )


def end(transaction: int, call: int, returned: int | None, outcome: Outcome = Outcome.OK) -> GroupRow:
    """The commit of a transaction."""
    return GroupRow(Kind.END, transaction, call, returned, outcome=outcome, transaction=transaction)


def stable(call: int, returned: int, found: int = -1, offset: int = -1) -> GroupRow:
    """A read that asks for stable offsets."""
    return GroupRow(Kind.READ, 9, call, returned, partition=0, offset=offset, commit=found, stable=True)


def deliver(process: int, generation: int, call: int, returned: int, offset: int) -> GroupRow:
    return GroupRow(Kind.DELIVER, process, call, returned, generation, 0, offset)


def made(transaction: int, generation: int, call: int, returned: int, offset: int) -> GroupRow:
    """A delivery of which the transaction has what the application made of it."""
    return GroupRow(Kind.DELIVER, transaction, call, returned, generation, 0, offset, transaction=transaction)


def settled(at: int, offset: int) -> GroupRow:
    return GroupRow(Kind.SETTLED, -1, at, partition=0, offset=offset)


TWO = [member(0, 1), member(1, 1), expect(0, 1), expect(1, 1), assign(0, 1, 1, 2), assign(0, 1, 1, 2, 0)]
"""A generation of two members and two partitions, of which one member is told."""
IN_TURN = [commit(0, 1, 0, 1, 5), commit(0, 1, 2, 3, 6)]
AT_ONCE = [settled(0, 0), commit(0, 1, 0, 9, 5), commit(0, 1, 0, 9, 6)]
AGAIN = [deliver(0, 1, 0, 1, 0), commit(0, 1, 2, 3, 1), assign(1, 2, 6, 7, 0), deliver(1, 2, 8, 9, 0)]
"""A record that is delivered again, to another member."""
OPEN = [commit(0, 1, 0, 1, 5), consumed(0, 2, 3, 6)]
"""An offset, and one in a transaction after it."""
BEHIND = [made(1, 2, 4, 5, 1), consumed(1, 6, 7, 2, generation=2), end(1, 8, 9)]
"""A committed transaction that goes on behind the first record."""
SETTLED_LATE = [settled(20, 0), stable(21, 22, 0, 5)]

PAIRS: dict[str, tuple[Name, Rows, Rows]] = {
    "two members own a partition": (
        Name.ASSIGNED_TWICE,
        [assign(0, 1, 0, 1, 0), assign(1, 1, 0, 1, 0)],
        [assign(0, 1, 0, 1, 0), assign(1, 2, 0, 1, 0)],
    ),
    "two processes of a static member": (
        Name.ASSIGNED_TWICE,
        [assign(0, 1, 0, 1, 0, of=7), assign(1, 1, 2, 3, 0, of=8)],
        [assign(0, 1, 0, 1, 0, of=7), assign(1, 1, 2, 3, 0, of=7)],
    ),
    "nobody owns a partition": (Name.UNASSIGNED, [*TWO, assign(1, 1, 1, 2)], TWO),
    "nobody owns a partition that somebody has yet to give back": (
        Name.UNASSIGNED,
        [assign(2, 0, 0, 1, 1), release(2, 1, 2), member(0, 1, 3), expect(1, 1, 3), assign(0, 1, 4, 5)],
        [assign(2, 0, 0, 1, 1), release(2, 1, 4), member(0, 1, 3), expect(1, 1, 3), assign(0, 1, 4, 5)],
    ),
    "two members commit": (
        Name.TWO_COMMITTERS,
        [commit(0, 1, 0, 1, 5), commit(1, 1, 2, 3, 6)],
        [commit(0, 1, 0, 1, 5), commit(1, 1, 2, 3, 6, FAIL), commit(1, 1, 2, 3, 6, of=1), commit(1, 2, 4, 5, 7)],
    ),
    "a commit of a former generation": (
        Name.COMMIT_OF_FORMER_GENERATION,
        [assign(1, 2, 0, 1), commit(0, 1, 2, 3, 6)],
        [assign(1, 2, 0, 1), commit(0, 1, 1, 3, 6)],
    ),
    "a commit of a former generation after another commit, of another partition": (
        Name.COMMIT_OF_FORMER_GENERATION,
        [commit(1, 2, 0, 1, 5, of=1), commit(0, 1, 2, 3, 6)],
        [commit(1, 2, 0, 1, 5, INFO, of=1), commit(0, 1, 2, 3, 6)],
    ),
    "a commit that failed": (
        Name.FAILED_COMMIT_READ,
        [commit(0, 1, 0, 1, 5, FAIL), read(2, 3, 0, 5)],
        [commit(0, 1, 0, 1, 5, INFO), read(2, 3, 0, 5)],
    ),
    "a commit of the future": (
        Name.COMMIT_READ_TOO_SOON,
        [read(0, 1, 1, 5), commit(0, 1, 2, 3, 5)],
        [read(0, 2, 1, 5), commit(0, 1, 2, 3, 5)],
    ),
    "an offset of a transaction that is aborted": (
        Name.FAILED_COMMIT_READ,
        [*OPEN, end(0, 4, 5, FAIL), stable(6, 7, 1, 6)],
        [*OPEN, end(0, 4, 5, INFO), stable(6, 7, 1, 6)],
    ),
    "an offset of a transaction that nobody has ended": (
        Name.FAILED_COMMIT_READ,
        [*OPEN, stable(6, 7, 1, 6)],
        [*OPEN, end(0, 4, None, INFO), stable(6, 7, 1, 6)],
    ),
    "an offset of a transaction before its end is called": (
        Name.COMMIT_READ_TOO_SOON,
        [*OPEN, end(0, 9, 10), stable(6, 8, 1, 6)],
        [*OPEN, end(0, 8, 10), stable(6, 8, 1, 6)],
    ),
    "an offset that is told though a transaction may change it": (
        Name.UNSTABLE_OFFSET_READ,
        [*OPEN, settled(0, 0), end(0, 9, 10), stable(4, 8, 0, 5)],
        [*OPEN, settled(0, 0), end(0, 9, 10), stable(3, 8, 0, 5)],
    ),
    "a later offset that is told though a transaction before it is open": (
        Name.UNSTABLE_OFFSET_READ,
        [*OPEN, end(0, 9, 10), commit(0, 1, 4, 5, 7), stable(6, 8, 3, 7)],
        [*OPEN, end(0, 8, 10), commit(0, 1, 4, 5, 7), stable(6, 8, 3, 7)],
    ),
    "an offset of a committed transaction that is gone": (
        Name.COMMITTED_OFFSET_ORDER,
        [*OPEN, end(0, 8, 10), *SETTLED_LATE],
        [*OPEN, end(0, 8, 10, FAIL), *SETTLED_LATE],
    ),
    "an offset of a transaction that was found, and is gone": (
        Name.COMMITTED_OFFSET_ORDER,
        [*OPEN, end(0, 8, None, INFO), stable(11, 12, 1, 6), *SETTLED_LATE],
        [*OPEN, end(0, 8, None, INFO), *SETTLED_LATE],
    ),
    "an offset counts from where it was written, and not from the end of its transaction": (
        Name.COMMITTED_OFFSET_ORDER,
        [*OPEN, commit(0, 1, 4, 5, 7), end(0, 8, 10), stable(11, 12, 1, 6)],
        [*OPEN, commit(0, 1, 3, 5, 7), end(0, 8, 10), stable(11, 12, 2, 7)],
    ),
    "an offset that goes back": (
        Name.COMMITTED_OFFSET_ORDER,
        [*IN_TURN, settled(4, 0), read(4, 5, 0, 5)],
        [*IN_TURN, read(4, 5, 0, 5)],
    ),
    "an offset that is gone": (
        Name.COMMITTED_OFFSET_ORDER,
        [*IN_TURN, settled(4, 0), read(4, 5)],
        [commit(0, 1, 0, 4, 5), settled(4, 0), read(4, 5)],
    ),
    "two reads, of which the later one finds what came before": (
        Name.COMMITTED_OFFSET_ORDER,
        [*AT_ONCE, read(1, 2, 1, 5), read(3, 4, 2, 6), read(5, 6, 1, 5)],
        [*AT_ONCE, read(1, 2, 1, 5), read(3, 5, 2, 6), read(5, 6, 2, 6)],
    ),
    "a commit beyond what was delivered": (
        Name.LOST_DELIVERY,
        [deliver(0, 1, 0, 1, 0), deliver(0, 1, 4, 5, 1), commit(0, 1, 2, 3, 2)],
        [deliver(0, 1, 0, 1, 0), deliver(0, 1, 3, 5, 1), commit(0, 1, 2, 3, 2)],
    ),
    "a delivery of what the group was beyond": (
        Name.DELIVERED_AFTER_COMMIT,
        [deliver(0, 1, 0, 1, 0), commit(0, 1, 2, 3, 1), assign(1, 2, 4, 5, 0), deliver(1, 2, 6, 7, 0)],
        [deliver(0, 1, 0, 1, 0), commit(0, 1, 2, 3, 1), assign(1, 2, 3, 5, 0), deliver(1, 2, 6, 7, 0)],
    ),
    "the same after an operator has set the group back": (
        Name.DELIVERED_AFTER_COMMIT,
        [commit(9, -1, 0, 1, 0), *AGAIN],
        [commit(9, -1, 4, 5, 0), *AGAIN],
    ),
    "a record that is passed over": (
        Name.SKIPPED_DELIVERY,
        [deliver(1, 2, 0, 1, 1), deliver(0, 1, 0, 1, 0), deliver(0, 1, 2, 3, 2)],
        [deliver(1, 2, 0, 1, 3), deliver(0, 1, 0, 1, 0), deliver(0, 1, 2, 3, 2)],
    ),
    "a delivery that goes back": (
        Name.NONMONOTONIC_DELIVERY,
        [deliver(0, 1, 0, 1, 1), deliver(0, 1, 2, 3, 1)],
        [deliver(0, 1, 0, 1, 1), deliver(0, 2, 2, 3, 1)],
    ),
    "a record that is never delivered": (
        Name.UNDELIVERED,
        [deliver(0, 1, 0, 1, 0), settled(2, 2)],
        [deliver(0, 1, 0, 1, 0), settled(2, 1)],
    ),
    "a record of which two committed transactions have made something": (
        Name.DOUBLED_DELIVERY,
        [made(0, 1, 0, 1, 0), end(0, 2, 3), made(1, 2, 4, 5, 0), end(1, 6, 7)],
        [made(0, 1, 0, 1, 0), end(0, 2, 3, FAIL), made(1, 2, 4, 5, 0), end(1, 6, 7)],
    ),
    "a record of which no committed transaction has made anything": (
        Name.UNDELIVERED,
        [made(0, 1, 0, 1, 0), end(0, 2, 3, FAIL), settled(4, 1)],
        [made(0, 1, 0, 1, 0), end(0, 2, 3, INFO), settled(4, 1)],
    ),
    "a commit behind a record of which only an aborted transaction has made something": (
        Name.LOST_DELIVERY,
        [made(0, 1, 0, 1, 0), end(0, 2, 3, FAIL), *BEHIND],
        [made(0, 1, 0, 1, 0), end(0, 2, 3), *BEHIND],
    ),
}  # fmt: skip


def all_pairs() -> Operations:
    """Every pair: history 2n has the anomaly, 2n + 1 nearly has it."""
    rows: list[Operation] = []
    for number, (_, wrong, right) in enumerate(PAIRS.values()):
        rows += history_of(wrong, history=2 * number)
        rows += history_of(right, history=2 * number + 1)
    return Operations.of(rows)
