"""Workers as a machine: explored, and with each of its rules broken."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.workers.machine import Workers
from tidegauge.spec.workers.models import NIGHTLY_WORKERS, WORKER_MODELS
from tidegauge.spec.workers.state import NONE, Consumer, Run, State


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] * (name in NIGHTLY_WORKERS)) for name in WORKER_MODELS]
)
def test_records_are_processed_in_order_and_all_of_them_are_committed(name: str) -> None:
    found = explore(WORKER_MODELS[name].machine, converges=True)
    assert found.complete
    assert found.holds, found.violations or found.convergence
    assert not found.unreached
    if name in COUNTS:
        assert counted(found) == COUNTS[name]


def test_the_models_take_every_action_that_their_bounds_allow() -> None:
    asked, expelled = (explore(WORKER_MODELS[name].machine) for name in ("workers-asked", "workers-expelled"))
    assert set(asked.never_enabled) == {"Expel", "Learn"}
    assert set(expelled.never_enabled) == {"AskBack", "GiveBack", "Hang", "GoOn", "Expire"}


# --- the rules, each broken ------------------------------------------------------------------------------------------


@attrs.frozen
class GoesOnBehindWhatWasFetched(Workers):
    """A consumer that is given a partition again goes on where it would have fetched."""

    def given(self, consumer: Consumer, generation: int, committed: int) -> Consumer:
        return evolve(super().given(consumer, generation, committed), position=consumer.fetched)


@attrs.frozen
class BeginsWhatIsDropped(Workers):
    def is_dropped(self, consumer: Consumer) -> bool:
        return False


@attrs.frozen
class BeginsWhatIsAskedFor(Workers):
    def is_dropped(self, consumer: Consumer) -> bool:
        return consumer.generation == NONE


@attrs.frozen
class LocksNothing(Workers):
    def is_locked(self, consumer: Consumer) -> bool:
        return False


@attrs.frozen
class BeginsWithTheLast(Workers):
    def next_record(self, consumer: Consumer) -> int:
        return consumer.fetched - 1


@attrs.frozen
class CountsWithoutALock(Workers):
    def counts(self, consumer: Consumer, run: Run) -> bool:
        return True


@attrs.frozen
class GivesBackWhileAWorkerIsAtIt(Workers):
    def may_give_back(self, consumer: Consumer) -> bool:
        return True


@attrs.frozen
class TakesLocksThatAreRenewed(Workers):
    def expires(self, run: Run) -> bool:
        return True


@attrs.frozen
class LeavesLocksToWhoHangs(Workers):
    def expires(self, run: Run) -> bool:
        return False


@attrs.frozen
class CommitsWhatWasFetched(Workers):
    """As a consumer that commits by itself does."""

    def committable(self, consumer: Consumer) -> int:
        return consumer.fetched


@attrs.frozen
class TakesEveryCommit(Workers):
    def owns(self, state: State, number: int) -> bool:
        return state.consumers[number].generation != NONE


@pytest.mark.parametrize(
    ("mutant", "bounds", "violated"),
    [
        (GoesOnBehindWhatWasFetched, Bounds(Expel=1), "CommittedIsFinished"),
        (BeginsWhatIsDropped, Bounds(Expel=1), "DroppedIsNotBegun"),
        (BeginsWhatIsAskedFor, Bounds(AskBack=1), "DroppedIsNotBegun"),
        (LocksNothing, Bounds(), "OneWorkerAtATime"),
        (BeginsWithTheLast, Bounds(), "OrderIsKept"),
        (CountsWithoutALock, Bounds(Hang=1), "WhoRenewsKeepsItsLock"),
        (GivesBackWhileAWorkerIsAtIt, Bounds(AskBack=1), "HandedOverAtRest"),
        (TakesLocksThatAreRenewed, Bounds(), "WhoRenewsKeepsItsLock"),
        (CommitsWhatWasFetched, Bounds(), "CommittedIsFinished"),
        (TakesEveryCommit, Bounds(Expel=1), "CommittedNeverGoesBack"),
    ],
)
def test_every_rule_is_needed(mutant: type[Workers], bounds: Bounds, violated: str) -> None:
    found = explore(mutant(bounds=bounds))
    assert [violation.invariant for violation in found.violations] == [violated]


def test_records_of_a_worker_that_hangs_are_processed_by_another_one() -> None:
    convergence = explore(LeavesLocksToWhoHangs(bounds=Bounds(Hang=1)), converges=True).convergence
    assert convergence is not None
    assert {lasso.goal for lasso in convergence.lassos} == {"every record is processed, and that is committed"}
