"""What a campaign must have seen at least once, or it has proved little: rare events, counted.

The names are reported with their counts; one that stays at zero over a whole campaign says that the faults are too
weak, too strong, or switched off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tidegauge.impl.server.trace import Trace, TraceEvent
from tidegauge.linearizability.history import Kind, Operation, Outcome
from tidegauge.model_tests.harness.simulation.recorder import UncleanElection

GOALS: Final = (
    "a follower truncated its log",
    "a fetch was fenced",
    "a fetch was held and handled again",
    "the ISR shrank",
    "the ISR grew",
    "an ISR change was refused",
    "two brokers thought that they led",
    "a leader crashed",
    "a crash lost records",
    "a log directory failed",
    "a broker lived on without one of its log directories",
    "a leader was lost with its disk",
    "a paused broker was deposed",
    "a controller took over",
    "a reassignment was completed",
    "a reassignment was taken back",
    "a replica was deleted",
    "records were deleted",
    "retention took records",
    "a follower started over where its leader's log begins",
    "a setting by which the controller decides was changed",
    "a consumer was reset to where the log begins",
    "a produce that waits for all was answered",
    "a produce has an unknown outcome",
    "a produce certainly failed",
    "an unclean election lost records",
)


def seen(trace: Trace, rows: Sequence[Operation], elections: Sequence[UncleanElection]) -> dict[str, int]:
    """How often each goal was reached in one run."""
    counts: Counter[str] = Counter(dict.fromkeys(GOALS, 0))
    leads: dict[tuple[str, int], dict[int, int]] = {}
    ends: dict[tuple[int, str, int], int] = {}
    paused: set[int] = set()
    moving: set[tuple[str, int]] = set()
    for event in trace:
        _note_event(event, counts)
        _note_moves(event, counts, moving)
        _note_leadership(event, counts, leads, paused)
        _note_loss(event, counts, ends)
    for row in rows:
        if row.kind is Kind.PRODUCE:
            counts["a produce that waits for all was answered"] += row.acks == -1 and row.outcome is Outcome.OK
            counts["a produce has an unknown outcome"] += row.outcome is Outcome.INFO
            counts["a produce certainly failed"] += row.outcome is Outcome.FAIL
        elif row.kind is Kind.FETCH and row.outcome is Outcome.FAIL:
            counts["a consumer was reset to where the log begins"] += "offset_out_of_range" in (row.meta or "")
    counts["an unclean election lost records"] += len(elections)
    counts["a controller took over"] -= 1  # the first one takes over from nobody
    return dict(counts)


def _note_event(event: TraceEvent, counts: Counter[str]) -> None:
    fields = event.fields
    match event.name:
        case "ReceiveFetch":
            counts["a fetch was fenced"] += fields["error"] in ("fenced_leader_epoch", "unknown_leader_epoch")
        case "ReceiveFetchResponse":
            out_of_range = fields["error"] == "offset_out_of_range" and fields["accepted"]
            counts["a follower started over where its leader's log begins"] += out_of_range
        case "HoldFetch":
            counts["a fetch was held and handled again"] += 1
        case "ShrinkIsr":
            counts["the ISR shrank"] += 1
        case "ReceiveAlterPartition":
            counts["an ISR change was refused"] += fields["error"] != "none"
        case "ReceiveAlterPartitionResponse":
            counts["the ISR grew"] += fields["error"] == "none" and len(fields["request"][4]) > 1
        case "ControllerFailover":
            counts["a controller took over"] += 1
        case "LogDirectoryFailed":
            counts["a log directory failed"] += 1
        case "DirectoriesOffline":
            counts["a broker lived on without one of its log directories"] += 1
        case "DeleteRecords":
            counts["records were deleted"] += fields["log_start"] == fields["offset"] > 0
        case "Retain":
            counts["retention took records"] += 1
        case "AlterConfigs":
            counts["a setting by which the controller decides was changed"] += fields["changed"] != ()


def _note_moves(event: TraceEvent, counts: Counter[str], moving: set[tuple[str, int]]) -> None:
    """Partitions that are on their way, until they have arrived or are taken back."""
    counts["a replica was deleted"] += event.name == "RemoveReplica"
    for topic, partition, *_, adding, removing, _, _ in event.fields.get("changed", ()):
        if adding or removing:
            moving.add((topic, partition))
        elif (topic, partition) in moving:
            moving.discard((topic, partition))
            taken_back = event.name == "CancelReassignment"
            counts[f"a reassignment was {'taken back' if taken_back else 'completed'}"] += 1


def _note_leadership(
    event: TraceEvent, counts: Counter[str], leads: dict[tuple[str, int], dict[int, int]], paused: set[int]
) -> None:
    fields = event.fields
    match event.name:
        case "ApplyMetadata":
            leaders = leads.setdefault((fields["topic"], fields["partition"]), {})
            leaders.pop(event.node, None)
            if fields["leader"] == event.node:
                leaders[event.node] = fields["leader_epoch"]
                counts["two brokers thought that they led"] += len(leaders) > 1
                counts["a paused broker was deposed"] += any(other in paused for other in leaders)
        case "LogDirectoryFailed":
            for topic, partition, *_ in fields["partitions"]:
                led = leads.get((topic, partition), {}).pop(event.node, None)
                counts["a leader was lost with its disk"] += led is not None
        case "Crash":
            for leaders in leads.values():
                counts["a leader crashed"] += leaders.pop(event.node, None) is not None
            paused.discard(event.node)
        case "Pause":
            paused.add(event.node)
        case "Resume":
            paused.discard(event.node)


def _note_loss(event: TraceEvent, counts: Counter[str], ends: dict[tuple[int, str, int], int]) -> None:
    fields = event.fields
    if event.name == "RemoveReplica":
        ends.pop((event.node, fields["topic"], fields["partition"]), None)
    elif event.name == "Crash":
        for topic, partition, kept in fields["kept"]:
            counts["a crash lost records"] += kept < ends.get((event.node, topic, partition), 0)
            ends[event.node, topic, partition] = kept
    elif "log_end_offset" in fields:
        place = event.node, fields["topic"], fields["partition"]
        counts["a follower truncated its log"] += fields["log_end_offset"] < ends.get(place, 0)
        ends[place] = fields["log_end_offset"]
