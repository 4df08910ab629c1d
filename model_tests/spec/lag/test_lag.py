"""The machine of lag keeps its properties, and each of its rules is needed."""

from __future__ import annotations

from functools import cache

import attrs
import pytest

from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.explorer import Exploration, Stop, explore
from tidegauge.spec.lag.machine import EPOCHS, Lag
from tidegauge.spec.lag.state import Follower, Request, Rest, State


@cache
def explored(machine: Lag) -> Exploration[State]:
    """To the end: two tests look at the same."""
    return explore(machine, stop=Stop.NEVER, converges=True)


@pytest.mark.parametrize(
    ("machine", "count"), [(Lag(), (12_289, 21_086)), (EPOCHS.machine, (15_748, 41_229))], ids=["lag", "lag-epochs"]
)
def test_the_machine_keeps_its_properties(machine: Lag, count: tuple[int, int]) -> None:
    found = explored(machine)
    assert found.holds
    assert found.complete
    assert counted(found) == count
    assert not found.unreached


def test_every_action_happens_in_one_of_the_models() -> None:
    never = [set(explored(machine).never_enabled) for machine in (Lag(), EPOCHS.machine)]
    assert not set.intersection(*never)


# --- rules that are wrong --------------------------------------------------------------------------------------------


@attrs.frozen
class NeverQuiteThere(Lag):
    """Only who has everything counts: under a load that never ends nobody has."""

    def caught_up_at(self, state: State, known: Follower, request: Request) -> int:
        return state.now if request.offset >= state.end else known.caught_up_at


@attrs.frozen
class CountsTooMuch(Lag):
    """Who has what there was at its last fetch counts as if it had everything now."""

    def caught_up_at(self, state: State, known: Follower, request: Request) -> int:
        return state.now if request.offset >= known.leader_end else known.caught_up_at


@attrs.frozen
class ForgetsRests(Lag):
    """Nobody tells the leader until when a fetch was at rest."""

    def rested(self, state: State, known: Follower, rest: Rest) -> Follower:
        return known


@attrs.frozen
class BelievesLateRests(Lag):
    """A rest of an earlier leader epoch counts in this one."""

    def rested(self, state: State, known: Follower, rest: Rest) -> Follower:
        return evolve(known, caught_up_at=max(known.caught_up_at, rest.asked_at))


@attrs.frozen
class RestsBehind(Lag):
    """A follower rests though records were appended: it is not looked at when it asks for them."""

    def is_at_rest(self, state: State, follower: int, request: Request) -> bool:
        known = state.followers[follower]
        return super().is_at_rest(evolve(state, end=known.end), follower, request)


HAD = "ItHadWhatItIsSaidToHaveHad"
KEEPS_UP = "WhoKeepsUpStays"


@pytest.mark.parametrize(
    ("machine", "violated"),
    [
        (NeverQuiteThere(), KEEPS_UP),
        (CountsTooMuch(), HAD),
        (ForgetsRests(), KEEPS_UP),
        (BelievesLateRests(max_time=2, max_records=1, max_epochs=1), HAD),
        (RestsBehind(), HAD),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_rule_that_is_wrong_is_found(machine: Lag, violated: str) -> None:
    assert violated in {violation.invariant for violation in explore(machine, stop=Stop.EACH).violations}
