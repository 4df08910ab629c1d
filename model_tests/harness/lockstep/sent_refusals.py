"""Which refusals of a specification are sent to an implementation: each class of action with each error, on walks.

A binding says of which classes of action it can send what is refused (`can_send`), and of a single request that nobody
could send it. Neither tells whether anything was ever sent. So a walk attempts, in its states, each class with each
error that was not sent yet; what was attempted again and again and never sent is told.

What few states refuse a walk beside an implementation may not come to. So walks of the specification alone, which are
quick, look for states in which it is refused (`places_of`), and an implementation is led there by the same actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep, failure_of
from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.lockstep.walks import PlanStrategy
from tidegauge.model_tests.harness.registry import Registration, Side
from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.simulation import walk
from tidegauge.spec.kernel.walking import drawn_actions, random_of_walk

Refused: TypeAlias = tuple[str, str]
"""The name of a class of action, and that of the error with which it is refused."""

EACH: Final = 3
"""Of so many states of a walk, one is asked what is refused in it."""


@attrs.frozen
class SentRefusals:
    """What came of the attempts of some walks."""

    sent: Counter[Refused] = attrs.field(factory=Counter)
    """How often both sides have refused it with that error."""
    unsent: Counter[Refused] = attrs.field(factory=Counter)
    """In how many states it was attempted, nobody could send it, and it had not been sent before."""

    def never(self, least: int) -> set[Refused]:
        """What was attempted in so many states and not sent once."""
        return {pair for pair, states in self.unsent.items() if states >= least and pair not in self.sent}


def sent_refusals(
    registration: Registration, side: Side, seed: int, walks: int, length: int | None = None
) -> SentRefusals:
    """What so many walks have sent. Raises AssertionError, in words, where one of them fails."""
    found, plan, bind = SentRefusals(), registration.walk_plan(), registration.bind(side)
    for number in range(walks):
        rng = random_of_walk(seed, number)
        machine = plan.draw(rng)
        strategy: PlanStrategy[Any] = PlanStrategy.drawn(plan, machine, rng)
        longest = plan.length if length is None else length
        lockstep = CheckedLockstep(machine, bind(machine))
        actions = drawn_actions(lockstep, strategy, rng, ended=partial(has_taken, longest))
        choices = Random(f"{seed}/{number}/attempts")
        failure = failure_of(lockstep, with_attempts(lockstep, actions, found, choices))
        assert failure is None, f"walk {number} of {registration.machine}: {failure.words}"
        found.sent.update(lockstep.refused)
    return found


def has_taken(actions: int, lockstep: Lockstep[Any]) -> bool:
    """Whether a walk is as long as that."""
    return len(lockstep.actions) >= actions


def with_attempts(
    lockstep: Lockstep[Any], actions: Iterator[Action], found: SentRefusals, rng: Random
) -> Iterator[Action]:
    """The actions, and between them an attempt of all that is refused there and was never sent."""
    for place, action in enumerate(actions):
        if place % EACH == 0:
            for pair, attempt in not_sent(lockstep, found, rng):
                yield attempt
                if not lockstep.refused[pair]:
                    found.unsent[pair] += 1
        yield action


def not_sent(lockstep: Lockstep[Any], found: SentRefusals, rng: Random) -> Iterator[tuple[Refused, Action]]:
    """One attempt, of those that are refused now, for each class and error that was never sent."""
    machine = lockstep.machine
    if not isinstance(machine, GuardedMachine):
        return
    for kind in machine.attempted_types:
        by_error: dict[str, list[Action]] = {}
        for attempt, refusal in machine.refused(lockstep.state, kind):
            by_error.setdefault(refusal.error.name, []).append(attempt)
        for error, attempts in by_error.items():
            pair = kind.__name__, error
            if not lockstep.refused[pair] and pair not in found.sent:
                yield pair, rng.choice(attempts)


@attrs.frozen
class Place:
    """Where something is refused: the actions of a machine that lead there, and the attempt."""

    machine: GuardedMachine[Any]
    actions: tuple[Action, ...]
    attempt: Action
    error: str


PLACES: Final = 8
"""Of one class and error so many are kept, of different walks: not everything can be sent wherever it is refused."""


def places_of(
    registration: Registration, seed: int, walks: int, length: int = 60, only: Machine[Any] | None = None
) -> dict[Refused, list[Place]]:
    """Where walks of the specification alone meet each class of action that is refused, with each of its errors.

    The machines have constants as those of lockstep's walks, unless they are `only` that one.
    """
    plan = registration.walk_plan()
    places: dict[Refused, list[Place]] = {}
    for number in range(walks):
        machine = plan.draw(random_of_walk(seed, number)) if only is None else only
        if not isinstance(machine, GuardedMachine):
            continue
        trace = walk(machine, seed, number, length=length).trace
        met: dict[Refused, list[Place]] = {}
        for taken in range(0, len(trace.states), EACH):
            for kind in machine.attempted_types:
                for attempt, refusal in machine.refused(trace.states[taken], kind):
                    place = Place(machine, trace.actions[:taken], attempt, refusal.error.name)
                    met.setdefault((kind.__name__, refusal.error.name), []).append(place)
        for pair, found in met.items():
            if len(places.setdefault(pair, [])) < PLACES:
                places[pair].append(Random(f"{seed}/{number}/{pair}").choice(found))
    return places


def is_sent(registration: Registration, side: Side, place: Place) -> bool:
    """Whether an implementation that is led to the place is sent what is refused there, with that error.

    What it cannot perform is left out on the way, and so something else may be refused. Raises Difference.
    """
    lockstep = Lockstep(place.machine, registration.bind(side)(place.machine))
    try:
        for action in place.actions:
            lockstep.perform(action)
        pair = place.attempt.name, place.error
        before = lockstep.refused[pair]
        lockstep.perform(place.attempt)
        return lockstep.refused[pair] > before
    finally:
        lockstep.close()
