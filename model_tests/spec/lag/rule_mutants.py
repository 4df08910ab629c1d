"""A wrong rule for the rules of lag that `test_lag` has none for."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.rule_mutant import RuleMutant, Wrong, always
from tidegauge.spec.lag.machine import EPOCHS, Lag
from tidegauge.spec.lag.state import Follower, Request, State

HAD: Final = "ItHadWhatItIsSaidToHaveHad"
KEEPS_UP: Final = "WhoKeepsUpStays"
SMALL: Final = Lag(max_time=2)
ONE_FETCH: Final = attrs.evolve(SMALL, max_records=1, max_fetches=1)
AT_ONCE: Final = attrs.evolve(ONE_FETCH, limit=0, max_time=1, max_epochs=1)


def _a_tick_before(machine: Any, right: Wrong, state: State, in_sync: bool) -> Follower:
    """Who is in sync had everything a tick before the epoch."""
    return Follower(in_sync, caught_up_at=max(0, state.now - 1))


def _forgetting(machine: Any, right: Wrong, state: State, known: Follower, request: Request) -> Follower:
    """What the leader had at a fetch is not remembered with it."""
    after: Follower = right(state, known, request)
    return attrs.evolve(after, leader_end=known.leader_end)


def _at_once(machine: Lag, right: Wrong, state: State) -> frozenset[int]:
    """Who is behind lags, for however short a time."""
    return frozenset(
        number for number, one in enumerate(state.followers) if state.leads and one.in_sync and one.end < state.end
    )


# fmt: off
MUTANTS: Final[tuple[RuleMutant, ...]] = (
    RuleMutant("supposes_a_time_before_the_epoch", "at_first", _a_tick_before, EPOCHS.machine, HAD),
    RuleMutant("forgets_what_there_was_at_the_fetch", "fetched", _forgetting, SMALL, HAD),
    RuleMutant("drops_who_is_behind_at_all", "lagging", _at_once, ONE_FETCH, KEEPS_UP),
    RuleMutant("takes_a_fetch_for_one_of_the_end", "last_request",
               lambda m, r, state, follower: attrs.evolve(r(state, follower), offset=state.end), ONE_FETCH, KEEPS_UP),
    RuleMutant("drops_before_it_is_told_of_the_rest", "waking", always(False), ONE_FETCH, KEEPS_UP),
    RuleMutant("goes_on_in_the_epoch", "in_epoch",
               lambda m, r, state, followers: attrs.evolve(r(state, followers), epoch=state.epoch),
               AT_ONCE, KEEPS_UP),
)
# fmt: on
