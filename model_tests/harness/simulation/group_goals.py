"""Rare things that a good campaign of groups has seen, and every decision that its coordinators can make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tidegauge.impl.server.trace import consumer_groups, group_offsets, groups
from tidegauge.impl.server.trace.events import Decision
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.linearizability.history import Kind, Operation, Outcome

REBALANCED: Final = "a group began another generation"
REFUSED: Final = "a commit was refused"
UNKNOWN: Final = "a commit has an unknown outcome"
AGAIN: Final = "a record was delivered again"
TAKEN_OVER: Final = "a partition went from one member to another"
FENCED: Final = "a static member's former process was fenced"
EXPIRED: Final = "a pause was longer than the session"
LEFT: Final = "a member left"
MOVED: Final = "another broker coordinated the group in the end"
WENT_OVER: Final = "a classic group with members became a consumer group"
WENT_BACK: Final = "a consumer group became a classic one again"
DECISIONS: Final[Mapping[str, tuple[type[Decision], ...]]] = {
    "classic-groups": (
        groups.LoadGroup,
        groups.ReceiveJoin,
        groups.ReceiveSync,
        groups.ReceiveHeartbeat,
        groups.ReceiveLeave,
        groups.ReceiveCommit,
        groups.TakeCommit,
        groups.ExpireSession,
        groups.ExpireRebalance,
        groups.ExpireSync,
        groups.CommitRecord,
        groups.FailRecord,
    ),
    "consumer-groups": (
        consumer_groups.LoadGroup,
        consumer_groups.ReceiveHeartbeat,
        consumer_groups.ReceiveLeave,
        consumer_groups.EndResolution,
        consumer_groups.RespondToHeartbeat,
        consumer_groups.ReceiveCommit,
        consumer_groups.ExpireSession,
        consumer_groups.ExpireRebalance,
        consumer_groups.RemoveMember,
        consumer_groups.CommitRecord,
        consumer_groups.FailRecord,
        consumer_groups.DeleteGroup,
    ),
    "group-migration": (
        consumer_groups.ReceiveSync,
        consumer_groups.ReceiveClassicHeartbeat,
        consumer_groups.RefuseJoin,
        consumer_groups.RefuseHeartbeat,
        consumer_groups.GoOver,
        groups.GoOver,
        groups.Dissolve,
        groups.DeleteGroup,
        groups.CommitDeletion,
    ),
    "offsets": (
        group_offsets.Load,
        group_offsets.Commit,
        group_offsets.Append,
        group_offsets.Apply,
        group_offsets.RespondToCommit,
        group_offsets.FailAppend,
        group_offsets.FetchStable,
        group_offsets.Delete,
        group_offsets.Expire,
    ),
}
"""By machine: what a trace may have, but for topics that go, offsets in transactions (other campaigns have them), and
members of a group that goes over that ask for no assignment in time, or do not join again when they are told: simulated
ones do at once there."""


def decided(machine: str, kind: type[Decision]) -> str:
    """The goal that a coordinator has decided so."""
    of = "" if kind.__module__ != groups.__name__ or machine != "group-migration" else " of a classic group"
    return f"{machine}: {kind.__name__}{of}"


GOALS: Final = (
    *(REBALANCED, REFUSED, UNKNOWN, AGAIN, TAKEN_OVER, FENCED, EXPIRED, LEFT, MOVED, WENT_OVER, WENT_BACK),
    *(decided(machine, kind) for machine, kinds in DECISIONS.items() for kind in kinds),
)

OF_PLAIN_MEMBERS: Final = frozenset(
    (
        decided("classic-groups", groups.TakeCommit),
        decided("offsets", group_offsets.Commit),
        decided("classic-groups", groups.ExpireSync),
    )
)
"""What members that process exactly once do not bring about: they commit in transactions only, and none of them hangs
between JoinGroup and SyncGroup."""


def reached(
    rows: Iterable[Operation], trace: Iterable[TraceEvent], seen: Counter[str], goals: Iterable[str] = GOALS
) -> Mapping[str, int]:
    """How often each goal was reached; `seen`: those that neither a history nor a trace tells."""
    counts, rows = Counter(seen), list(rows)
    commits = Counter(row.outcome for row in rows if row.kind is Kind.COMMIT_OFFSETS)
    delivered = [(row.partition, offset) for row in rows if row.kind is Kind.DELIVER for offset in row.placed]
    owners = {(partition, row.process) for row in rows if row.kind is Kind.ASSIGN for partition in row.values}
    kinds = Counter(type(event.decision) for event in trace)
    counts[REFUSED] += commits[Outcome.FAIL]
    counts[UNKNOWN] += commits[Outcome.INFO]
    counts[AGAIN] += len(delivered) - len(set(delivered))
    counts[TAKEN_OVER] += len(owners) - len({partition for partition, _ in owners})
    counts[WENT_OVER] += sum(
        isinstance(one.decision, groups.Dissolve) and bool(one.decision.after.members) for one in trace
    )
    counts[WENT_BACK] += sum(isinstance(one.decision, groups.GoOver) and bool(one.decision.written) for one in trace)
    counts[REBALANCED] += max(0, len(generations(trace)) - 1)
    counts.update({decided(machine, kind): kinds[kind] for machine, of in DECISIONS.items() for kind in of})
    return {goal: counts[goal] for goal in goals}


def generations(trace: Iterable[TraceEvent]) -> set[int]:
    """The generations of a classic group, and the epochs of a consumer group, that members were told of."""
    found = set[int]()
    for event in trace:
        match event.decision:
            case groups.ReceiveSync(after=after):
                found.add(after.generation)
            case consumer_groups.RespondToHeartbeat(epoch=epoch):
                found.add(epoch)
    return found
