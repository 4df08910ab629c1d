"""What must hold of a group's offsets, whatever the cleaner has taken and any broker leads, told by all of history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from tidegauge.spec.kernel.machine import Invariant
from tidegauge.spec.offsets.rules import OffsetRules
from tidegauge.spec.offsets.state import NONE, Entry, Error, Kind, State

ENDS: Final = (Kind.COMMIT, Kind.ABORT)


def invariants(machine: OffsetRules) -> Mapping[str, Invariant[State]]:
    """What holds in every state."""
    return {
        "NewestCounts": newest_counts,
        "PendingIsOpen": pending_is_open,
        "StableIsDecided": partial(stable_is_decided, machine),
        "LoadedIsKept": partial(loaded_is_kept, machine),
        "OnlyOldExpires": partial(only_old_expires, machine),
        "MembersKeepTheirOffsets": members_keep_their_offsets,
        "AcknowledgedIsApplied": acknowledged_is_applied,
        "FormerTellsNothingElse": former_tells_nothing_else,
    }


def newest_counts(state: State) -> bool:
    """The coordinator tells the value that was written last, of those that count."""
    committed = state.store.committed
    return (NONE if committed is None else committed.value) == counting(committed_history(state))


def pending_is_open(state: State) -> bool:
    """What is pending is exactly what a marker may yet make count."""
    return {producer: value.value for producer, value in state.store.pending} == undecided(committed_history(state))


def stable_is_decided(machine: OffsetRules, state: State) -> bool:
    """Who asks for a stable offset is told none while anything in the log may yet change it, committed or not."""
    if machine.fetch_error(state) is not Error.NONE:
        return True
    return not undecided(state.history) and counting(state.history) == counting(committed_history(state))


def loaded_is_kept(machine: OffsetRules, state: State) -> bool:
    """A broker that loads the log, as the cleaner has left it, knows what the coordinator has kept, or is about to."""
    new = (entry for entry in state.in_flight if entry.place < state.high_watermark)
    loaded = machine.loaded(entry for entry in state.log if entry.place < state.high_watermark)
    return loaded == machine.replayed(state.store, new)


def only_old_expires(machine: OffsetRules, state: State) -> bool:
    """No offset expires before its time: what a tombstone of the coordinator takes away is old."""
    if not any(entry.is_expiry for entry in state.history):
        return True
    decided = committed_places(state.history)
    for nth, tombstone in enumerate(state.history):
        if tombstone.is_expiry:
            taken = newest(state.history[:nth], decided)
            if taken is not None and _ends(machine, taken, tombstone.empty_since) > tombstone.time:
                return False
    return True


def _ends(machine: OffsetRules, value: Entry, empty_since: int) -> int:
    """When the time of a value is over, whose group has had no members since then."""
    return max(value.time, empty_since) + machine.retention if value.expires_at is None else value.expires_at


def members_keep_their_offsets(state: State) -> bool:
    """No offset expires while the group has members: one of them may go on from there."""
    return not any(entry.has_members for entry in state.history)


def acknowledged_is_applied(state: State) -> bool:
    """Once a transaction's coordinator was told that its marker is written, nobody sees the offset from before it."""
    told = [entry for entry in state.history if entry.place < state.acknowledged and entry.kind in ENDS]
    pending = dict(state.store.pending)
    return not any(marker.producer in pending and pending[marker.producer].place < marker.place for marker in told)


def former_tells_nothing_else(state: State) -> bool:
    """Every broker that tells the offset tells the same: a former coordinator tells none (KAFKA-9235)."""
    return state.former is None or state.former.committed == state.store.committed


def converging() -> Mapping[str, Invariant[State]]:
    """What comes about in the end."""
    return {
        "every transaction ends, and all is committed": lambda state: (
            not list(state.open_from()) and state.high_watermark == state.applied == state.end
        )
    }


def goals() -> Mapping[str, Invariant[State]]:
    """What a search that proves anything must reach."""
    return {
        "an offset expires": lambda state: any(entry.is_expiry for entry in state.history),
        "a marker commits what was written before the value that counts": lambda state: any(
            _comes_too_late(state, entry) for entry in committed_history(state)
        ),
        "a tombstone is gone, and the marker of what it took is left": lambda state: (
            any(entry.kind is Kind.TOMBSTONE for entry in state.history)
            and not any(entry.kind is Kind.TOMBSTONE for entry in state.log)
            and any(entry.kind is Kind.COMMIT for entry in state.log)
        ),
    }


def _comes_too_late(state: State, marker: Entry) -> bool:
    """Whether a commit marker made nothing count, for another value had been written after its own."""
    committed = state.store.committed
    if committed is None or marker.kind is not Kind.COMMIT:
        return False
    own = [one.place for one in state.history if one.kind is Kind.OFFSET and one.producer == marker.producer]
    return max(own) < committed.place < marker.place


# --- what history says -----------------------------------------------------------------------------------------------


def committed_history(state: State) -> list[Entry]:
    """What was ever appended, is committed and replayed."""
    return [entry for entry in state.history if entry.place < state.applied]


def counting(history: Sequence[Entry]) -> int:
    """The value that counts after these entries, NONE if none does."""
    found = newest(history, committed_places(history))
    return NONE if found is None else found.value


def newest(history: Iterable[Entry], committed: frozenset[int]) -> Entry | None:
    """The last value, of those that are in no transaction or in one that commits; None after a tombstone."""
    found = None
    for entry in history:
        if entry.kind is Kind.TOMBSTONE:
            found = None
        elif entry.kind is Kind.OFFSET and (entry.producer == NONE or entry.place in committed):
            found = entry
    return found


def committed_places(history: Iterable[Entry]) -> frozenset[int]:
    """The places of the values that a marker commits."""
    found: set[int] = set()
    written: dict[int, list[int]] = {}
    for entry in history:
        if entry.kind is Kind.OFFSET:
            written.setdefault(entry.producer, []).append(entry.place)
        elif entry.kind in (Kind.COMMIT, Kind.ABORT):
            ended = written.pop(entry.producer, ())
            found.update(ended if entry.kind is Kind.COMMIT else ())
    return frozenset(found)


def undecided(history: Iterable[Entry]) -> dict[int, int]:
    """The values that a marker after these entries may yet make count, by producer."""
    found: dict[int, int] = {}
    for entry in history:
        if entry.kind is Kind.TOMBSTONE:
            found.clear()
        elif entry.kind is Kind.OFFSET and entry.producer != NONE:
            found[entry.producer] = entry.value
        elif entry.kind is not Kind.OFFSET:
            found.pop(entry.producer, None)
    return found
