"""A wrong rule for the rules of the two cleaners that their tests have none for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.rule_mutant import RuleMutant, Wrong, always
from tidegauge.spec.compaction.machine import DELETED, Compaction, Record, Round, Segment, State
from tidegauge.spec.compaction.transactional import TransactionalCompaction

SMALL: Final = Compaction(max_records=2, max_time=0, max_crashes=0, reads=False)
ONE_KEY: Final = attrs.evolve(SMALL, max_records=3, keys=1)
CRASHES: Final = attrs.evolve(SMALL, max_crashes=1)


@attrs.frozen
class Written(Compaction):
    """A log of which all is closed."""

    values: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Of each segment key and value of each record."""

    def initial(self) -> Iterable[State]:
        segments: list[Segment] = []
        end = 0
        for values in self.values:
            records = tuple(Record(end + place, *pair) for place, pair in enumerate(values))
            segments.append(Segment(end, end + len(records), records))
            end += len(records)
        history = tuple(record for segment in segments for record in segment.records)
        yield State((*segments, Segment(end, end)), history=history)


TOMBSTONE: Final = Written(max_records=0, max_time=0, max_crashes=0, values=(((0, 1), (0, DELETED)), ((1, 1),)))
TWICE: Final = Written(max_records=0, max_time=0, max_crashes=0, reads=False, values=(((0, 1), (1, 1), (0, 2)),))
IN_TRANSACTIONS: Final = TransactionalCompaction(max_records=2, keys=1, tombstones=False, copies=False, max_time=0)
COPIES: Final = TransactionalCompaction(max_records=2, keys=1, max_time=0)


def _without_the_first(machine: Any, right: Wrong, state: State, round_: Round, count: int) -> tuple[Segment, ...]:
    """A group begins with the second segment that is left, if there is one."""
    group: tuple[Segment, ...] = right(state, round_, count + 1)
    return group[-count:]


def _of_all(machine: Any, right: Wrong, state: Any, keys: int) -> Any:
    """A map that is full is taken for one of all that is closed."""
    map_ = right(state, keys)
    return attrs.evolve(map_, end=state.segments[-1].base if isinstance(map_, Round) else state.segments[-1])


def _empty(machine: Any, right: Wrong, state: State, count: int) -> State:
    """The cleaned segment has nothing."""
    after: State = right(state, count)
    assert after.round is not None
    assert after.round.swap is not None
    return attrs.evolve(after, round=attrs.evolve(after.round, swap=attrs.evolve(after.round.swap, records=())))


def _removes_alone(machine: Any, right: Wrong, state: State) -> State:
    """The last of the old segments goes, and nothing takes its place."""
    after: State = right(state)
    if after.round is None or after.round.swap is not None:
        return after
    assert state.round is not None
    assert state.round.swap is not None
    return attrs.evolve(after, segments=tuple(one for one in after.segments if one != state.round.swap))


# fmt: off
MUTANTS: Final[tuple[RuleMutant, ...]] = (
    RuleMutant("gives_tombstones_no_time", "horizon", lambda m, r, state, record: state.now, TOMBSTONE, "PromptReader"),
    RuleMutant("leaves_out_a_segment", "group", _without_the_first, ONE_KEY, "CleanPart"),
    RuleMutant("takes_a_full_map_for_a_whole_one", "mapped", _of_all, TWICE, "CleanPart"),
    RuleMutant("writes_nothing", "cleaned", _empty, SMALL, "NewestValues"),
    RuleMutant("removes_without_replacing", "without_old", _removes_alone, SMALL, "NewestValues"),
    RuleMutant("keeps_what_is_replaced", "swapped",
               lambda m, r, state, swap: attrs.evolve(
                   state, segments=tuple(sorted((*state.segments, swap), key=lambda one: (one.base, one.end)))),
               SMALL, "OffsetsAscend"),
    RuleMutant("forgets_what_was_renamed", "recovered",
               lambda m, r, state: attrs.evolve(state, round=None, crashes=state.crashes + 1),
               CRASHES, "NewestValues"),
    RuleMutant("looks_at_what_is_replaced", "visible", lambda m, r, state: state.records, SMALL, "NewestValues"),
    # --- with transactions
    RuleMutant("knows_of_no_abort", "is_aborted", always(False), IN_TRANSACTIONS, "NewestCommittedValues"),
    RuleMutant("waits_for_nobody", "is_due", always(True), COPIES, "PromptReplica"),
    RuleMutant("takes_a_full_map_for_a_whole_one_too", "mapped", _of_all,
               attrs.evolve(IN_TRANSACTIONS, keys=2, max_records=3, producers=0), "CleanPart"),
    RuleMutant("drops_the_index", "cleaned", lambda m, r, state, keys: attrs.evolve(r(state, keys), aborted=()),
               IN_TRANSACTIONS, "NewestCommittedValues"),
)
# fmt: on
