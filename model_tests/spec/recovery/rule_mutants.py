"""A wrong rule for the rules of recovery that `test_recovery` has none for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.recovery.test_recovery import RefusesWhatItHas
from tidegauge.model_tests.spec.rule_mutant import RuleMutant, Wrong, always
from tidegauge.spec.recovery.actions import FAR
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.reading import Reading
from tidegauge.spec.recovery.state import ENDLESS, NO_EPOCHS, NO_FILE, Batch, Rot, Segment, Stage, State

NEVER_OPENED: Final = State()


@attrs.frozen
class Stored(Recovery):
    """A log that is closed, and no more than one damage that it has."""

    log: State = NEVER_OPENED

    def initial(self) -> Iterable[State]:
        yield self.log


def _stored(**log: Any) -> Stored:
    known = {"is_open": False, "is_clean": True, "damages": 1, "first_epoch": 0, "noted": 0, **log}
    return Stored(max_appends=0, max_crashes=0, max_damages=0, log=State(**known))


ONE: Final = Recovery(max_appends=1)
LOST: Final = _stored(segments=(), end=2, flushed=2, point=2, is_clean=False)
FIRST_SPOILT: Final = _stored(
    segments=(Segment(0, (Batch(0, 2, 0, Rot.LENGTH), Batch(2, 4, 0)), 2),),
    end=4,
    flushed=4,
    point=4,
    snapshots=frozenset({4}),
)
STARTED: Final = _stored(
    segments=(Segment(1, (Batch(1, 2, 0, Rot.LENGTH), Batch(2, 3, 0)), 2, torn=True),),
    start=3,
    end=4,
    flushed=3,
    point=2,
    is_clean=False,
    first_epoch=2,
    noted=2,
)
"""After a crash; the records before the start are flushed."""
FIRST_OF_THREE: Final = _stored(
    segments=(Segment(0, (Batch(0, 1, 0, Rot.CONTENT), Batch(1, 2, 0), Batch(2, 3, 0)), 3),),
    end=3,
    flushed=3,
    point=3,
    snapshots=frozenset({3}),
)
CRASHED: Final = _stored(
    segments=(Segment(0), Segment(1)),
    end=1,
    is_clean=False,
    first_epoch=NO_EPOCHS,
    noted=NO_FILE,
    snapshots=frozenset({1}),
    damages=0,
)
"""A crash has taken the only batch, and what tells of its end is left."""
CLEANED: Final = _stored(
    segments=(Segment(0, (Batch(0, 1, 0),), 1), Segment(2, (Batch(2, 3, 0),), 1)),
    end=3,
    flushed=3,
    point=3,
    snapshots=frozenset({2, 3}),
    left_out=((1, 2),),
    damages=0,
)
FAR_SNAPSHOT: Final = _stored(
    segments=(Segment(0, (Batch(0, 1, 0), Batch(1, 2, 0, Rot.CONTENT)), 2),),
    end=2,
    flushed=2,
    snapshots=frozenset({2, FAR}),
    damages=3,
)
"""The recovery point of a clean stop is lost."""
FAR_START: Final = attrs.evolve(
    FAR_SNAPSHOT,
    log=attrs.evolve(FAR_SNAPSHOT.log, segments=(), snapshots=frozenset({2}), start=FAR, noted=NO_FILE, damages=4),
)
"""No file is left."""
UNTOLD: Final = _stored(
    segments=(Segment(0, (Batch(0, 1, 0, Rot.CONTENT), Batch(1, 2, 0)), 2),), end=2, flushed=2, damages=2
)
"""The same, and nothing else tells where the log ended."""
CLEANED_TO_2: Final = attrs.evolve(CLEANED, log=attrs.evolve(CLEANED.log, is_clean=False, point=0, mark=2))
"""After a crash without a recovery point."""
WITHOUT_A_FILE: Final = _stored(
    segments=(Segment(0, (Batch(1, 2, 0),), 1), Segment(3, (Batch(3, 4, 0),), 1)),
    end=4,
    flushed=4,
    point=4,
    snapshots=frozenset({2, 3, 4}),
    left_out=((0, 1),),
    mark=3,
)
"""A cleaner was there, and the file that begins at 2 is lost."""
MADE_UP: Final = _stored(
    segments=(Segment(0, (Batch(0, 1, 0), Batch(3, 4, 0), Batch(4, 5, 0)), 3), Segment(2, torn=True), Segment(5)),
    end=5,
    flushed=5,
    point=5,
    snapshots=frozenset({5}),
    left_out=((1, 3),),
    mark=5,
)
"""The file that begins at 2 is none of the log's."""
MADE_UP_INSIDE: Final = _stored(
    segments=(Segment(0, (Batch(1, 2, 0), Batch(2, 4, 0)), 2), Segment(3)),
    end=4,
    flushed=4,
    point=4,
    snapshots=frozenset({4}),
    left_out=((0, 1),),
    mark=4,
)
"""The same of the one that begins at 3, within a batch that begins where another one ends."""
MADE_UP_BEHIND: Final = _stored(
    segments=(Segment(0, (Batch(1, 2, 0),), 1), Segment(2, (Batch(2, 3, 0),), 1), Segment(4, torn=True)),
    end=3,
    flushed=3,
    snapshots=frozenset({2, 3}),
    left_out=((0, 1),),
    mark=2,
    damages=2,
)
"""The last file neither, and the recovery point of a clean stop is lost."""
CUT: Final = _stored(
    segments=(Segment(0, (Batch(0, 1, 0, Rot.LENGTH), Batch(1, 2, 0), Batch(2, 3, 0, Rot.CONTENT)), 3),),
    end=3,
    flushed=3,
    is_clean=False,
    damages=3,
)
"""After a crash that has no recovery point: of the batch between two that are damaged nothing bears it out."""
READS_ON: Final = Recovery(max_appends=1, reads_on=True)
ANEW: Final = Recovery(max_appends=1, max_damages=0, starts_anew=True)
REPLACES: Final = Recovery(max_appends=1, max_damages=0, replaces=True)


def _to_the_first(machine: Any, right: Wrong, segment: Segment, *ends: object, **known: object) -> Reading:
    """Only the first damaged place of a file is noticed."""
    reading: Reading = right(segment, *ends, **known)
    return attrs.evolve(reading, damaged=reading.damaged[:1])


def _without_the_new(machine: Any, right: Wrong, state: State) -> State:
    """A new segment that has its proper name already is taken for one of the old ones, and goes."""
    after: State = right(state)
    left = state.replacing
    if left is None or left.stage is not Stage.PLACED:
        return after
    return attrs.evolve(after, segments=tuple(one for one in after.segments if one.base != left.first))


# fmt: off
MUTANTS: Final[tuple[RuleMutant, ...]] = (
    RuleMutant("knows_no_recovery_point", "taken_in",
               lambda m, r, state, point, **how: r(state, 0, **how), LOST, "NoOffsetIsGivenTwice"),
    RuleMutant("rejects_no_recovery_point", "is_rejected", always(False), ONE, "NoOffsetIsGivenTwice"),
    RuleMutant("takes_what_was_flushed_for_torn", "take_in_read",
               lambda m, r, state, taken, segment, limit, point, flushed: r(state, taken, segment, limit, point, 0),
               FIRST_SPOILT, "IntactIsKept"),
    RuleMutant("believes_no_log_start", "is_start_witnessed", always(False), STARTED, "NoOffsetIsGivenTwice"),
    RuleMutant("keeps_every_snapshot", "kept_snapshots",
               lambda m, r, state, *where: state.snapshots, CRASHED, "NoFileMovesTheEnd"),
    RuleMutant("takes_every_first_segment_for_a_stray", "is_early_stray", always(True), ONE, "IntactIsKept"),
    RuleMutant("follows_nothing", "is_followed", always(False), FIRST_OF_THREE, "FollowedIsServed"),
    RuleMutant("finds_nothing_borne_out", "is_borne_out", always(False),
               RefusesWhatItHas(max_appends=0), "FollowedIsServed"),
    RuleMutant("notices_the_first_damage_alone", "read", _to_the_first,
               RefusesWhatItHas(max_appends=0), "NothingSpoiltIsServed"),
    RuleMutant("writes_no_start_down", "written_start", lambda m, r, state, written: written, ANEW, "NoFalseAlarm"),
    RuleMutant("leaves_out_what_only_a_file_says", "checkpointed",
               lambda m, r, state: 0 if state.start == state.segments[0].base else r(state), ANEW, "NoFalseAlarm"),
    RuleMutant("rejects_all_leader_epochs", "begin_behind", always(True), ANEW, "NoFalseAlarm"),
    RuleMutant("takes_what_a_cleaner_left_out_for_lost", "is_left_out", always(False), CLEANED, "NoFalseAlarm"),
    RuleMutant("keeps_of_a_cut_what_is_believed", "kept_of_cut",
               lambda m, r, segment, torn: () if torn.end is None else r(segment, torn), CUT, "IntactIsSomewhere"),
    RuleMutant("believes_no_cleaner", "mark_of", always(0), CLEANED_TO_2, "IntactIsKept"),
    RuleMutant("doubts_no_gap", "is_file_lost", always(False), WITHOUT_A_FILE, "MissingIsTold"),
    RuleMutant("passes_over_in_silence", "pass_over",
               lambda m, r, state, taken, start: None, WITHOUT_A_FILE, "MissingIsTold"),
    RuleMutant("believes_every_file", "is_made_up", always(False), MADE_UP, "FollowedIsServed"),
    RuleMutant("knows_nothing_that_follows", "follows_another", always(False), MADE_UP_INSIDE, "FollowedIsServed"),
    RuleMutant("goes_on_at_every_file", "is_end_told", always(True), MADE_UP_BEHIND, "NoFileMovesTheEnd"),
    RuleMutant("believes_every_end", "reach", always(ENDLESS), FAR_SNAPSHOT, "EndIsWithinReach"),
    RuleMutant("believes_every_start", "start_from",
               lambda m, r, state, end: m.start_not_denied(state), FAR_START, "EndIsWithinReach"),
    RuleMutant("takes_a_lost_point_for_none", "flushed_up_to",
               lambda m, r, state, point: point, UNTOLD, "LossIsTold"),
    RuleMutant("serves_what_a_reader_met", "met_again",
               lambda m, r, state, base: state, READS_ON, "NothingSpoiltIsServed"),
    RuleMutant("finds_nothing_in_a_file", "gaps_in", always(()), READS_ON, "NothingSpoiltIsServed"),
    RuleMutant("removes_what_has_its_name", "replaced", _without_the_new, REPLACES, "IntactIsKept"),
)
# fmt: on
NOT_MUTATED: Final[Mapping[tuple[str, str], str]] = {
    ("Opening", "rejected_end"): (
        "what is believed once a recovery point is rejected no property says: lockstep compares it (`RECOVERY_WALKS`)"
    ),
    ("Opening", "is_known_end"): (
        "it saves a warning: of a closed log with up to two damages something else tells what is lost, and a wrong "
        "rule only has more logs in doubt (`test_known_ends`)"
    ),
}
"""Why a rule has no wrong one."""
