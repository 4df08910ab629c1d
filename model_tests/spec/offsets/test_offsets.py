"""The offsets of groups as a machine: explored, and with each of its rules broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
import pytest

from tidegauge.model_tests.spec.counts import counted
from tidegauge.model_tests.spec.teeth import asked_only
from tidegauge.spec.bugs.offsets.kafka_8069 import BUG as KAFKA_8069
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Invariant
from tidegauge.spec.offsets.actions import Commit, CommitInTransaction, Delete, FetchStable
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import Committed, Entry, Error, State, Store

QUICK = Offsets(producers=1, max_entries=3)
LATER = Offsets(producers=1, max_entries=3, max_time=0, applies_later=True)
MEMBERS = Offsets(producers=1, max_entries=2, max_failures=1, max_rebalances=1)
ASKED = Offsets(producers=1, max_entries=2, max_time=2, asked=(0, 2), is_old_format=True)
TWO_PRODUCERS = Offsets(max_entries=3, max_failures=0, max_time=0)
DEEP = (Offsets(max_entries=4), Offsets(producers=1, max_entries=5, max_failures=0))


@pytest.mark.parametrize("machine", [QUICK, TWO_PRODUCERS], ids=["one producer", "two producers"])
def test_what_is_kept_is_what_is_loaded_and_the_newest_counts(machine: Offsets) -> None:
    exploration = explore(machine, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations or exploration.convergence
    assert counted(exploration) == ((2_358, 4_508) if machine is TWO_PRODUCERS else (4_234, 12_222))
    assert not exploration.unreached or machine is TWO_PRODUCERS, "without time nothing expires"


@pytest.mark.parametrize("machine", [LATER, MEMBERS], ids=["applied later", "members"])
def test_the_same_where_what_is_committed_is_applied_later_and_where_there_are_members(machine: Offsets) -> None:
    exploration = explore(machine, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations or exploration.convergence
    assert counted(exploration) == ((6_204, 21_842) if machine is LATER else (3_058, 9_892))


def test_an_offset_is_kept_for_the_time_that_its_client_has_asked_or_else_for_that_of_the_setting() -> None:
    exploration = explore(ASKED, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations or exploration.convergence
    assert counted(exploration) == (5_076, 13_410)


def test_an_offset_for_which_nobody_has_asked_a_time_is_gone_once_another_broker_has_loaded_it() -> None:
    """What comes of KAFKA-8069, whose shortest counterexample ends when it is loaded as something else."""
    found = explore(asked_only(KAFKA_8069.machine(), "OnlyOldExpires"))
    assert [step.action.name for step in found.violations[0].trace.steps] == ["Commit", "FailOver", "Expire"]
    (saved,) = explore(KAFKA_8069.machine()).violations
    assert saved.invariant == "LoadedIsKept"


@pytest.mark.deep
@pytest.mark.parametrize("machine", DEEP)
def test_the_same_of_longer_logs(machine: Offsets) -> None:
    exploration = explore(machine, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations or exploration.convergence


# --- the rules, each broken ------------------------------------------------------------------------------------------


@attrs.frozen
class MarkersCountInTheirOrder(Offsets):
    """What was committed last counts, and not what was written last."""

    def counts_more(self, value: Committed, committed: Committed | None) -> bool:
        return True


@attrs.frozen
class TombstonesLeaveWhatIsPending(Offsets):
    def after_tombstone(self, store: Store) -> Store:
        return evolve(store, committed=None)


@attrs.frozen
class ExpiresBesideAnOpenTransaction(Offsets):
    def is_pending(self, state: State) -> bool:
        return False


@attrs.frozen
class ExpiresBesideWhatIsOnItsWay(Offsets):
    def is_in_flight(self, state: State) -> bool:
        return False

    def fetch_error(self, state: State) -> Error:
        return Offsets().fetch_error(state)


@attrs.frozen
class TellsWhatIsNotStable(Offsets):
    """As before KIP-447 (KAFKA-8587)."""

    def fetch_error(self, state: State) -> Error:
        return Error.NONE


@attrs.frozen
class TellsWhatIsAboutToChange(Offsets):
    """What is on its way may yet be acknowledged to a former member."""

    def fetch_error(self, state: State) -> Error:
        return super().fetch_error(evolve(state, history=()))


@attrs.frozen
class ForgetsWhatIsPendingWhenItLoads(Offsets):
    def loaded(self, log: Iterable[Entry]) -> Store:
        return evolve(super().loaded(log), pending=())


@attrs.frozen
class CleansBehindAnOpenTransaction(Offsets):
    def cleanable(self, state: State) -> int:
        return state.high_watermark


@attrs.frozen
class WhatWasAbortedCountsForTheCleaner(Offsets):
    def aborted(self, state: State) -> frozenset[int]:
        return frozenset()


@attrs.frozen
class MarkersGoBeforeTheirValues(Offsets):
    def is_needed(self, marker: Entry, kept: Iterable[Entry]) -> bool:
        return False


@pytest.mark.parametrize(
    ("mutant", "invariant"),
    [
        (MarkersCountInTheirOrder, "NewestCounts"),
        (TombstonesLeaveWhatIsPending, "PendingIsOpen"),
        (ExpiresBesideAnOpenTransaction, "OnlyOldExpires"),
        (ExpiresBesideWhatIsOnItsWay, "OnlyOldExpires"),
        (TellsWhatIsNotStable, "StableIsDecided"),
        (TellsWhatIsAboutToChange, "StableIsDecided"),
        (ForgetsWhatIsPendingWhenItLoads, "LoadedIsKept"),
        (CleansBehindAnOpenTransaction, "LoadedIsKept"),
        (WhatWasAbortedCountsForTheCleaner, "LoadedIsKept"),
        (MarkersGoBeforeTheirValues, "LoadedIsKept"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_every_rule_is_needed(mutant: type[Offsets], invariant: str) -> None:
    found = explore(mutant(producers=1, max_entries=4))
    assert [violation.invariant for violation in found.violations] == [invariant]


def test_the_order_of_markers_is_lost_to_the_cleaner() -> None:
    """Why the newest value counts: who counts markers knows something else once the log is cleaned."""

    @attrs.frozen
    class AsItSays(MarkersCountInTheirOrder):
        @property
        def invariants(self) -> Mapping[str, Invariant[State]]:
            return {name: holds for name, holds in super().invariants.items() if name == "LoadedIsKept"}

    (violation,) = explore(AsItSays(producers=1, max_entries=4)).violations
    assert violation.trace.steps[-1].action.name == "Clean"


def test_every_refusal_is_attempted() -> None:
    machine = Offsets(producers=1)
    empty = State()
    kept = evolve(empty, store=Store(Committed(0, 0, 0), ((0, Committed(1, 1, 0)),)))
    refused = {
        (kind.__name__, reason.error)
        for state in (empty, kept)
        for kind in (Commit, CommitInTransaction, Delete, FetchStable)
        for _, reason in machine.refused(state, kind)
    }
    assert refused == {
        ("Commit", Error.ILLEGAL_GENERATION),
        ("Commit", Error.UNKNOWN_MEMBER_ID),
        ("CommitInTransaction", Error.ILLEGAL_GENERATION),
        ("CommitInTransaction", Error.UNKNOWN_MEMBER_ID),
        ("Delete", Error.GROUP_ID_NOT_FOUND),
        ("FetchStable", Error.UNSTABLE_OFFSET_COMMIT),
    }
