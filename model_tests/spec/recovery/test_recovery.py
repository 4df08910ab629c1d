"""The machine of a log's recovery: explored to its end, and each of its rules is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
import pytest

from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.progress import Limits
from tidegauge.spec.recovery.actions import Open
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.opening import Taken
from tidegauge.spec.recovery.properties import WHOLE
from tidegauge.spec.recovery.reading import Damaged
from tidegauge.spec.recovery.state import NO_EPOCHS, UNREADABLE, Batch, Gap, Rot, Segment, Stage, State


def test_one_batch_a_crash_and_any_damage() -> None:
    found = explore(Recovery(max_appends=1), converges=True)
    assert (found.holds, found.complete, found.distinct) == (True, True, 6_980)
    assert found.reached.keys() == {"a recovery point is rejected"}


def test_a_cleaner_that_dies_and_epochs_of_another_log() -> None:
    found = explore(Recovery(max_appends=1, replaces=True, lies=True))
    assert (found.holds, found.complete, found.distinct) == (True, True, 7_722)


def test_a_log_that_starts_where_its_leaders_does() -> None:
    found = explore(Recovery(max_appends=1, starts_anew=True))
    assert (found.holds, found.complete, found.distinct) == (True, True, 7_154)


@pytest.mark.parametrize(
    ("machine", "states"),
    [
        (Recovery(max_appends=1, max_damages=0, was_elsewhere=True), 1_124),
        (Recovery(max_appends=1, goes_far=True), 8_768),
        (Recovery(max_appends=1, reads_on=True), 7_292),
    ],
    ids=["was elsewhere", "goes far", "reads on"],
)
def test_a_log_of_other_brokers_offsets_that_no_log_has_and_damage_that_readers_meet(
    machine: Recovery, states: int
) -> None:
    found = explore(machine)
    assert (found.holds, found.complete, found.distinct) == (True, True, states)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("machine", "states"),
    [
        (Recovery(max_appends=2, max_damages=0, was_elsewhere=True), 71_787),
        (Recovery(max_appends=2, max_damages=0, starts_anew=True), 27_845),
        (Recovery(max_appends=2, max_crashes=0, max_damages=0, starts_anew=True, starts_inside=True), 8_860),
        (Recovery(max_appends=2, max_damages=0, starts_anew=True, starts_inside=True), 29_573),
        (Recovery(max_appends=1, max_crashes=0, max_damages=2, was_elsewhere=True), 15_159),
        (Recovery(max_appends=2, max_crashes=0, max_damages=1, was_elsewhere=True), 196_609),
        (Recovery(max_appends=2, max_crashes=0, odd_epochs=True), 77_425),
        (Recovery(max_appends=1, max_damages=2), 33_922),
        (Recovery(max_appends=1, max_damages=3), 100_866),
        (Recovery(max_appends=1, max_crashes=0, max_damages=4), 62_241),
        (Recovery(max_appends=2, starts_anew=True), 363_948),
    ],
)
def test_more_batches_or_more_damage(machine: Recovery, states: int) -> None:
    found = explore(machine)
    assert (found.holds, found.complete, found.distinct) == (True, True, states)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("machine", "states"),
    [
        (Recovery(max_appends=2, max_damages=2), 1_996_190),
        (Recovery(max_appends=2, max_crashes=0, max_damages=3), 1_450_213),
    ],
)
def test_two_batches_and_more_damage(machine: Recovery, states: int) -> None:
    """Ten minutes and four gigabytes each; three damages with a crash as well have far more states."""
    found = explore(machine)
    assert (found.holds, found.complete, found.distinct) == (True, True, states)


@pytest.mark.deep
def test_the_states_nearest_to_the_beginning_hold() -> None:
    found = explore(Recovery(max_damages=2), limits=Limits(states=300_000))
    assert found.holds, str(found.violations[0])


class BelievesTheSpoilt(Recovery):
    def is_believed(self, segment: Segment, number: int, known_end: int | None, *, is_behind_damage: bool) -> bool:
        return True


class TakesATornTailForDamage(Recovery):
    def no_false_alarm(self, state: State) -> bool:
        """Is broken too, and as soon."""
        return True

    def is_torn(self, damaged: Damaged, flushed: int) -> bool:
        return False


class CutsWhatWasFlushed(Recovery):
    def is_torn(self, damaged: Damaged, flushed: int) -> bool:
        return True


class TrustsAfterACrash(Recovery):
    def is_trusted(self, state: State, segment: Segment, limit: int | None, point: int, *, reads_all: bool) -> bool:
        return True


class SkipsWhatIsMissing(Recovery):
    def belongs(self, taken: Taken, segment: Segment, flushed: int) -> bool:
        return True


class TellsNobody(Recovery):
    def is_noted(self, gaps: list[Gap]) -> bool:
        return False


class KnowsNoEnd(Recovery):
    def known_end(self, state: State, point: int, end: int | None) -> int:
        return 0

    def nothing_is_appended_to_damage(self, state: State) -> bool:
        """Is broken too, and sooner."""
        return True


class AsksNoSnapshots(Recovery):
    def ends_told(self, state: State, point: int) -> frozenset[int]:
        return frozenset()


class PointTooLow(Recovery):
    """The last of two batches of a log that was closed is damaged, and the recovery point is too low."""

    def initial(self) -> Iterable[State]:
        log = Segment(0, (Batch(0, 1, 0), Batch(1, 2, 0, Rot.CONTENT)), 2)
        known = State((log,), end=2, flushed=2, point=1, first_epoch=0, noted=0, is_clean=True, damages=2)
        yield attrs.evolve(known, snapshots=frozenset({2}))


class BelievesAPointThatIsTooLow(PointTooLow):
    def believed_point(self, state: State) -> int:
        return state.point


class DoubtsNoEnd(PointTooLow):
    """And there is no snapshot."""

    def initial(self) -> Iterable[State]:
        for state in super().initial():
            yield attrs.evolve(state, snapshots=frozenset())

    def is_end_unsure(self, state: State, taken: Taken, point: int) -> bool:
        return False


class StartsBeforeItsLogStart(Recovery):
    """All was deleted, the last batch is damaged, recovery point and leader epochs are lost; or the first is low."""

    def initial(self) -> Iterable[State]:
        log = Segment(0, (Batch(0, 2, 0), Batch(2, 4, 0, Rot.CONTENT)), 2)
        known = State((log,), start=4, began=4, end=4, flushed=4, first_epoch=3, is_clean=True, damages=3)
        yield from (known, attrs.evolve(known, noted=UNREADABLE), attrs.evolve(known, noted=UNREADABLE, point=2))


class BelievesNoStartWithoutEpochs(StartsBeforeItsLogStart):
    def start_not_denied(self, state: State) -> int:
        return state.start if self.is_start_witnessed(state) else 0


def test_what_was_deleted_is_not_served_though_three_things_are_damaged() -> None:
    """Where nothing else tells how far a damaged log went, it reached its log start at least."""
    machine = StartsBeforeItsLogStart(max_appends=0)
    assert not explore(machine).violations
    assert [machine.step(one, Open(True)).served for one in machine.initial()] == [(), (), ()]


class BelievesASnapshotMoreThanALogThatIsWhole(Recovery):
    """An earlier log has left a snapshot."""

    def initial(self) -> Iterable[State]:
        log = Segment(0, (Batch(0, 2, 0),), 1)
        known = State((log,), end=2, flushed=2, point=2, first_epoch=0, noted=0, is_clean=True)
        yield attrs.evolve(known, snapshots=frozenset({2, 4}))

    def ends_at(self, state: State, offset: int) -> bool:
        return False


class EndsEarlierInSilence(AsksNoSnapshots):
    """Nor is an end in doubt, nor does it matter here that offsets are given twice."""

    def is_end_unsure(self, state: State, taken: Taken, point: int) -> bool:
        return False

    def no_offset_is_given_twice(self, before: State, action: Action, after: State) -> bool:
        return True


class ForgetsWhatALogStartSays(Recovery):
    def known_flushed(self, state: State, point: int) -> int:
        return point


class TakesTheFirstFileForTheStart(Recovery):
    """Two segments; the first one is lost, and so are the leader epochs."""

    def initial(self) -> Iterable[State]:
        left = Segment(1, (Batch(1, 2, 0),), 1)
        yield State((left,), end=2, flushed=2, point=2, is_clean=True, damages=2)

    def is_start_unknown(self, state: State, first: int) -> bool:
        return False


class BelievesAFirstFileOfWhichNoStartIsNoted(TakesTheFirstFileForTheStart):
    """The epochs are there, and one of them began with the lost record; nothing says that it was deleted."""

    def initial(self) -> Iterable[State]:
        for state in super().initial():
            yield attrs.evolve(state, first_epoch=0, noted=0, damages=1)


class TakesAnEmptyListOfEpochsForKnowledge(Recovery):
    """A log was cut to its beginning, so that the file of epochs has none; its first segment is lost after a crash."""

    def initial(self) -> Iterable[State]:
        yield State((Segment(1),), end=1, first_epoch=0, noted=NO_EPOCHS, snapshots=frozenset({1}), damages=1)

    def is_start_unknown(self, state: State, first: int) -> bool:
        return state.noted != NO_EPOCHS and super().is_start_unknown(state, first)


class KeepsEpochsOfALogThatIsGone(Recovery):
    """A log that starts at 2 has lost its only file, and its log start; a stray file comes later."""

    def initial(self) -> Iterable[State]:
        yield State(end=2, flushed=2, point=2, noted=1, is_clean=True, start_is_lost=True, began=2, damages=2)

    def opened(self, state: State, *, reads_all: bool) -> State:
        after = super().opened(state, reads_all=reads_all)
        return after if state.segments else attrs.evolve(after, noted=state.noted)


class TakesALogThatIsGoneForANewOne(Recovery):
    """A log that was closed has no file, nor is anything else left that knows of it."""

    def initial(self) -> Iterable[State]:
        yield State(end=1, flushed=1, is_clean=True, start_is_lost=True, began=1, damages=3)

    def is_file_missing(self, state: State) -> bool:
        return False


class SeesNoLaterFiles(Recovery):
    """The only file of a log is empty, as is a stray one before it; its start and the recovery point are lost."""

    def initial(self) -> Iterable[State]:
        files = Segment(0, is_stray=True), Segment(1)
        known = State(files, began=1, end=1, flushed=1, noted=NO_EPOCHS, is_clean=True, damages=3)
        yield attrs.evolve(known, start_is_lost=True)

    def later_files(self, state: State, taken: Taken) -> Iterator[int]:
        return iter(())


class SeesNoLaterFilesBehindAPoint(SeesNoLaterFiles):
    """A log that started at 2 is as empty; its start is lost, and its recovery point too low."""

    def initial(self) -> Iterable[State]:
        files = Segment(1, is_stray=True), Segment(2)
        known = State(files, began=2, end=2, flushed=2, point=1, first_epoch=1, noted=1, is_clean=True, damages=3)
        yield attrs.evolve(known, start_is_lost=True)


class AsksNoStart(Recovery):
    """All of a log is below its start, damaged or of a stray file, and its recovery point is too low."""

    def initial(self) -> Iterable[State]:
        known = State(start=2, began=2, end=2, flushed=2, point=1, is_clean=True, damages=3)
        damaged = Segment(0, (Batch(0, 2, 0, Rot.CONTENT),), 1), Segment(2)
        yield attrs.evolve(known, segments=damaged, noted=NO_EPOCHS)
        yield attrs.evolve(known, segments=(Segment(0, is_stray=True), Segment(2)))

    def borne_out(self, state: State, point: int, end: int | None) -> int:
        return 0


class AsksNoStartWhereThePointIsLost(AsksNoStart):
    def borne_out(self, state: State, point: int, end: int | None) -> int:
        return Recovery.borne_out(self, state, point, end) if point else 0


class AsksNoStartWhereThePointIsBefore(AsksNoStart):
    def borne_out(self, state: State, point: int, end: int | None) -> int:
        return 0 if point else Recovery.borne_out(self, state, point, end)


class StartsOverWithoutAFile(Recovery):
    """The file of a log is lost, its start too, and its recovery point is where its leader epochs begin."""

    def initial(self) -> Iterable[State]:
        known = State(end=2, flushed=2, point=1, high_watermark=2, first_epoch=1, noted=1, is_clean=True, damages=3)
        yield attrs.evolve(known, start_is_lost=True, began=2)

    def taken_in(self, state: State, point: int, *, reads_all: bool) -> Taken:
        taken = super().taken_in(state, point, reads_all=reads_all)
        if not taken.segments:
            taken.end = 0
        return taken


class StartsWhereTheFilesDo(Recovery):
    def believed_start(self, state: State, first: int, end: int) -> int:
        return first


class StartsWhereItIsTold(Recovery):
    def start_is_told(self, before: State, action: Action, after: State) -> bool:
        """Is broken too, and sooner."""
        return True

    def believed_start(self, state: State, first: int, end: int) -> int:
        return state.start


class RefusesWhatWasDeleted(Recovery):
    """The first and last of four batches are damaged, and the log starts at the second."""

    def initial(self) -> Iterable[State]:
        rots = [Rot.LENGTH, None, None, Rot.CONTENT]
        batches = tuple(Batch(number, number + 1, 0, rot) for number, rot in enumerate(rots))
        yield State(
            (Segment(0, batches, 4),),
            start=1,
            began=1,
            end=4,
            point=4,
            first_epoch=0,
            noted=0,
            is_clean=True,
            damages=2,
        )

    def met(self, segments: list[Segment], start: int, end: int, gaps: list[Gap]) -> Iterator[Gap]:
        return super().met(segments, 0, end, gaps)


class RefusesWhatItHas(RefusesWhatWasDeleted):
    """The same, and the rule holds."""

    def met(self, segments: list[Segment], start: int, end: int, gaps: list[Gap]) -> Iterator[Gap]:
        return Recovery.met(self, segments, start, end, gaps)


def test_damage_below_the_start_is_the_reason_for_no_repair() -> None:
    assert not explore(RefusesWhatItHas(max_appends=0)).violations


class LostBehindDamage(Recovery):
    """The first of two batches is damaged, the file after them is lost, and then the recovery point, or not."""

    def initial(self) -> Iterable[State]:
        first = Segment(0, (Batch(0, 1, 0, Rot.LENGTH), Batch(1, 2, 0)), 2)
        known = State((first, Segment(3, (Batch(3, 4, 0),), 1)), end=4, flushed=4, point=4, first_epoch=0, noted=0)
        known = attrs.evolve(known, snapshots=frozenset({2, 3, 4}), is_clean=True, damages=3)
        yield from (known, attrs.evolve(known, point=0))


class BelievesWithoutItsRecoveryPoint(LostBehindDamage):
    def ended(self, state: State, point: int, base: int) -> int:
        return point


def test_a_batch_that_only_the_recovery_point_would_doubt_is_not_served_where_that_is_lost() -> None:
    machine = LostBehindDamage(max_appends=0)
    assert not explore(machine).violations
    assert [[b.start for b in machine.step(one, Open(True)).served] for one in machine.initial()] == [[3], [3]]


class RefusesAllBehindDamage(Recovery):
    """The first of three batches is damaged."""

    def initial(self) -> Iterable[State]:
        batches = tuple(Batch(number, number + 1, 0, None if number else Rot.CONTENT) for number in range(3))
        log = State((Segment(0, batches, 3),), end=3, flushed=3, point=3, first_epoch=0, noted=0)
        yield attrs.evolve(log, high_watermark=3, damages=1)

    def is_believed(self, segment: Segment, number: int, known_end: int | None, *, is_behind_damage: bool) -> bool:
        return super().is_believed(segment, number, known_end, is_behind_damage=False) and not is_behind_damage


class KeepsAFileOfDamage(Recovery):
    """The only batch is damaged, and nothing is left that knows of it."""

    def initial(self) -> Iterable[State]:
        yield State((Segment(0, (Batch(0, 1, 0, Rot.CONTENT),), 1),), end=1, is_clean=True, damages=3)

    def stays(self, segment: Segment, end: int) -> bool:
        return True


class DropsWhatIsDecided(Recovery):
    def is_decided(self, stage: Stage) -> bool:
        return False


class BelievesEpochsOfAnotherLog(Recovery):
    def is_contradicted(self, state: State) -> bool:
        return False


@pytest.mark.parametrize(
    ("wrong", "invariant"),
    [
        (BelievesTheSpoilt(max_appends=1), "NothingSpoiltIsServed"),
        (TakesATornTailForDamage(max_appends=2, max_damages=0), "TornIsCut"),
        (CutsWhatWasFlushed(max_appends=2), "IntactIsKept"),
        (TrustsAfterACrash(max_appends=1), "TornIsCut"),
        (KnowsNoEnd(max_appends=1), "NoOffsetIsGivenTwice"),
        (AsksNoSnapshots(max_appends=1, max_damages=2), "NoOffsetIsGivenTwice"),
        (EndsEarlierInSilence(max_appends=1, max_damages=2), "LossIsTold"),
        (BelievesAPointThatIsTooLow(max_appends=0), "NoOffsetIsGivenTwice"),
        (DoubtsNoEnd(max_appends=0), "LossIsTold"),
        (BelievesNoStartWithoutEpochs(max_appends=0), "LostPointServesNoMore"),
        (BelievesASnapshotMoreThanALogThatIsWhole(max_appends=0), "NoFileMovesTheEnd"),
        (ForgetsWhatALogStartSays(max_appends=1), "NoOffsetIsGivenTwice"),
        (TakesTheFirstFileForTheStart(max_appends=0), "StartIsTold"),
        (BelievesAFirstFileOfWhichNoStartIsNoted(max_appends=0), "StartIsTold"),
        (TakesAnEmptyListOfEpochsForKnowledge(max_appends=0), "StartIsTold"),
        (KeepsEpochsOfALogThatIsGone(max_appends=0, max_damages=3), "StartIsTold"),
        (TakesALogThatIsGoneForANewOne(max_appends=0), "LossIsTold"),
        (SeesNoLaterFiles(max_appends=0), "LossIsTold"),
        (SeesNoLaterFilesBehindAPoint(max_appends=0), "LossIsTold"),
        (AsksNoStartWhereThePointIsLost(max_appends=0), "NoOffsetIsGivenTwice"),
        (AsksNoStartWhereThePointIsBefore(max_appends=0), "NoOffsetIsGivenTwice"),
        (StartsOverWithoutAFile(max_appends=0), "NoOffsetIsGivenTwice"),
        (StartsWhereTheFilesDo(max_appends=1), "DeletedIsGone"),
        (StartsWhereItIsTold(max_appends=1), "StartIsInTheLog"),
        (SkipsWhatIsMissing(max_appends=2, max_damages=0), "FlushedIsKept"),
        (TellsNobody(max_appends=1), "RefusedIsTold"),
        (RefusesWhatWasDeleted(max_appends=0), "RepairKeepsWhatIsBefore"),
        (BelievesWithoutItsRecoveryPoint(max_appends=0), "LostPointServesNoMore"),
        (RefusesAllBehindDamage(max_appends=0), "FollowedIsServed"),
        (KeepsAFileOfDamage(max_appends=0), "NoFileIsTwoSegments"),
        (DropsWhatIsDecided(max_appends=1, max_damages=0, replaces=True), "IntactIsKept"),
        (BelievesEpochsOfAnotherLog(max_appends=1, lies=True), "EpochsAreTheLogs"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Recovery) else one,
)
def test_each_rule_is_needed(wrong: Recovery, invariant: str) -> None:
    found = explore(wrong)
    assert [one.invariant for one in found.violations] == [invariant]


class RepairsNothing(Recovery):
    def _repaired(self, state: State) -> State:
        return state


def test_a_damaged_log_that_is_never_repaired_is_found() -> None:
    found = explore(RepairsNothing(max_appends=1), converges=True)
    assert found.convergence is not None
    assert not found.violations
    assert [lasso.goal for lasso in found.convergence.lassos] == [WHOLE]
