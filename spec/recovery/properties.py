"""What is true of a log that is opened, of each opening and each repair, and what comes true in the end."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.recovery.actions import FAR, Open, Repair
from tidegauge.spec.recovery.opening import Opening
from tidegauge.spec.recovery.state import REACH, State

WHOLE: Final[str] = "a log is opened again, and one that is damaged is repaired"
"""What comes true for good."""


class Properties(Opening):
    """The properties of the machine; each has a wrong rule that makes it false."""

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "NothingSpoiltIsServed": self.nothing_spoilt_is_served,
            "FlushedIsKept": self.flushed_is_kept,
            "RefusedIsTold": self.refused_is_told,
            "NothingIsAppendedToDamage": self.nothing_is_appended_to_damage,
            "TornIsCut": self.torn_is_cut,
            "NoFileIsTwoSegments": self.no_file_is_two_segments,
            "StartIsInTheLog": self.start_is_in_the_log,
            "EpochsAreTheLogs": self.epochs_are_the_logs,
            "NoFalseAlarm": self.no_false_alarm,
        }

    def nothing_spoilt_is_served(self, state: State) -> bool:
        """An open log serves no batch that is damaged."""
        return not state.is_open or all(batch.rot is None for batch in state.served)

    def flushed_is_kept(self, state: State) -> bool:
        """Without damage, an open log has all from its start to its end, and its end is not before what was flushed.

        But for what a cleaner has left out.
        """
        if not state.is_open or state.damages:
            return True
        out = [(start, end) for start, end in state.left_out if end > state.start]
        offset, is_first = state.start, True
        for start, end in sorted([*((one.start, one.end) for one in state.served), *out]):
            if start > offset or (start < offset and not is_first):
                return False
            offset, is_first = end, False
        return offset == state.end >= state.point

    def refused_is_told(self, state: State) -> bool:
        """A log that refuses says so to the next process."""
        return state.has_note or not state.gaps

    def torn_is_cut(self, state: State) -> bool:
        """What a crash leaves of an append is no damage, and goes."""
        return not state.is_open or bool(state.damages) or not any(segment.torn for segment in state.segments)

    def nothing_is_appended_to_damage(self, state: State) -> bool:
        """The segment to which an open log appends ends where its last whole batch does."""
        return not state.is_open or not state.segments[-1].torn

    def no_file_is_two_segments(self, state: State) -> bool:
        """Each segment of an open log has a base offset, and so a file, of its own."""
        return not state.is_open or len({one.base for one in state.segments}) == len(state.segments)

    def start_is_in_the_log(self, state: State) -> bool:
        """An open log starts no later than it ends."""
        return not state.is_open or state.start <= state.end

    def epochs_are_the_logs(self, state: State) -> bool:
        """No batch contradicts the leader epochs of an open log."""
        return not state.is_open or not state.is_contradicted

    def no_false_alarm(self, state: State) -> bool:
        """Of a log that nothing has damaged nothing is said to be damaged, lost or in doubt."""
        is_told = bool(state.gaps) or state.was_rejected or state.ends_in_damage or state.start_in_doubt
        return not state.is_open or bool(state.damages) or not is_told

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return {
            "NoOffsetIsGivenTwice": self.no_offset_is_given_twice,
            "EndIsWithinReach": self.end_is_within_reach,
            "IntactIsKept": self.intact_is_kept,
            "IntactIsSomewhere": self.intact_is_somewhere,
            "DeletedIsGone": self.deleted_is_gone,
            "RepairKeepsWhatIsBefore": self.repair_keeps_what_is_before,
            "LossIsTold": self.loss_is_told,
            "StartIsTold": self.start_is_told,
            "MissingIsTold": self.missing_is_told,
            "NoFileMovesTheEnd": self.no_file_moves_the_end,
            "FollowedIsServed": self.followed_is_served,
            "LostPointServesNoMore": self.lost_point_serves_no_more,
        }

    def no_offset_is_given_twice(self, before: State, action: Action, after: State) -> bool:
        """A log ends at its recovery point and its start or beyond, unless nothing else knew of that point.

        A start counts where the leader epochs, which are written down before it, say that the log starts there.

        One that was closed in order ends where its snapshots do, though the recovery point is lost. One that is made up
        says nothing.
        """
        if not isinstance(action, Open) or after.was_rejected or before.start == FAR:
            return True
        known = max(before.point, before.start if before.start <= before.noted + 1 else 0)
        if before.is_clean:
            known = max([known, *(one for one in before.snapshots if one != FAR)])
        return after.end >= min(known, before.flushed)

    def end_is_within_reach(self, before: State, action: Action, after: State) -> bool:
        """No name and no number that the disk has made up has a log go on farther away than a file reaches."""
        return not isinstance(action, Open) or after.end <= before.end + REACH

    def intact_is_kept(self, before: State, action: Action, after: State) -> bool:
        """What was flushed, and is intact, stays where it is; between two that are damaged it may be kept apart."""
        if not isinstance(action, Open) or after.was_rejected:
            return True
        batches = {batch for segment in before.segments for batch in segment.batches if batch.rot is None}
        point = before.point if before.damages else before.flushed
        flushed = {batch for batch in batches if batch.end <= point and batch.start >= before.start}
        gone = flushed - {batch for segment in after.segments for batch in segment.batches}
        gone = {batch for batch in gone if batch.start not in after.hidden}
        return not gone or (before.damages > 1 and all(batch.start in after.aside for batch in gone))

    def intact_is_somewhere(self, before: State, action: Action, after: State) -> bool:
        """No opening removes an intact batch, flushed or not: it is in a file of the log, or kept apart."""
        if not isinstance(action, Open):
            return True
        held = {batch.start for one in after.segments for batch in one.batches} | after.aside | after.hidden
        return all(batch.start in held for one in before.segments for batch in one.batches if batch.rot is None)

    def deleted_is_gone(self, before: State, action: Action, after: State) -> bool:
        """A log that nothing has damaged starts where it did."""
        return not isinstance(action, Open) or bool(before.damages) or after.start == before.began

    def repair_keeps_what_is_before(self, before: State, action: Action, after: State) -> bool:
        """A repair cuts no intact batch of the log before the first one that is damaged; what was deleted is none."""
        if not isinstance(action, Repair) or before.gaps[0][0] < before.segments[0].base:
            return True
        damaged = min((start for start, end in before.gaps if end > before.start), default=before.end)
        batches = (batch for one in before.segments for batch in one.batches if batch.rot is None)
        kept = {batch for one in after.segments for batch in one.batches}
        return kept.issuperset(batch for batch in batches if before.start < batch.end <= damaged)

    def loss_is_told(self, before: State, action: Action, after: State) -> bool:
        """A log that was closed in order, and ends earlier than it did, says so."""
        is_told = bool(after.gaps) or after.was_rejected or after.ends_in_damage
        return is_told or not isinstance(action, Open) or not before.is_clean or after.end >= before.flushed

    def start_is_told(self, before: State, action: Action, after: State) -> bool:
        """A log that starts later than it did says so, or its directory does: a checkpoint is gone, or it has crashed.

        After a crash nobody knows whether the record was deleted with which the first leader epoch begins. And where a
        cleaner was, files before it that hold nothing are no loss, whether or not they are there. Nor is anything lost
        where the first leader epoch of a log that is not known to be damaged begins with the first batch that is left.
        """
        first = next((batch.start for segment in after.segments for batch in segment.batches), None)
        if first == after.start == before.noted and not before.has_note:
            return True
        ahead = [one for one in before.segments if one.base < after.start]
        are_empty = bool(before.left_out and ahead) and not any(one.batches for one in ahead)
        if are_empty and ahead[0].base <= before.began:
            return True
        if any(start <= before.began and after.start <= end for start, end in before.left_out):
            return True
        is_unsure = before.start_is_lost or (not before.is_clean and after.start == before.noted + 1)
        is_told = bool(after.gaps) or after.start_in_doubt or is_unsure
        return is_told or not isinstance(action, Open) or after.start <= before.began

    def missing_is_told(self, before: State, action: Action, after: State) -> bool:
        """A log that was closed in order, and lacks a file whose snapshot is there, says so.

        A cleaner that leaves out all of a file removes both.
        """
        if not isinstance(action, Open) or not before.is_clean or after.gaps or after.gap_in_doubt:
            return True
        bases = {segment.base for segment in before.segments}
        lost = {one for one in before.snapshots if after.start < one < after.end and one not in bases}
        held = [(batch.start, batch.end) for segment in after.segments for batch in segment.batches]
        held += [gap for gap in before.left_out if gap not in held]
        is_told = after.was_rejected or after.ends_in_damage
        return is_told or all(any(start <= one < end for start, end in held) for one in lost)

    def no_file_moves_the_end(self, before: State, action: Action, after: State) -> bool:
        """No file that the disk has made up has a log go on farther than it did."""
        return not isinstance(action, Open) or after.end <= before.end

    def followed_is_served(self, before: State, action: Action, after: State) -> bool:
        """Nothing intact is refused without a reason: of two batches that follow each other in a file neither is."""
        if not isinstance(action, Open):
            return True
        following = [
            (one, behind)
            for segment in (*before.segments, *after.segments)
            for one, behind in pairwise(segment.batches)
            if one.rot is None and behind.rot is None and one.end == behind.start
        ]
        held = {batch for segment in after.segments for batch in segment.batches}
        is_refused = any(held.issuperset(two) and any(map(after.is_refused, two)) for two in following)
        return not is_refused and not any(after.hidden.issuperset({one.start, other.start}) for one, other in following)

    def lost_point_serves_no_more(self, before: State, action: Action, after: State) -> bool:
        """A log that was closed in order serves no more where its recovery point is lost or too low than with it."""
        if not isinstance(action, Open) or not before.is_clean or before.point >= before.flushed:
            return True
        told = self.opened(evolve(before, point=before.flushed), reads_all=action.reads_all)
        return set(told.served).issuperset(after.served)

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return {WHOLE: lambda state: state.is_open and not state.gaps}

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {
            "a gap is refused": lambda state: bool(state.gaps) and bool(state.served),
            "a recovery point is rejected": lambda state: state.was_rejected,
            "something is kept apart": lambda state: bool(state.aside),
        }
