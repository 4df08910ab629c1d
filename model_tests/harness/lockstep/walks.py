"""Random walks in lockstep: deep, quick, and a function of (machine, seed, number) alone.

Each walk draws its own constants and gives every class of action a weight of its own (swarm testing: Groce et al.,
ISSTA 2012): those that perturb often zero, the others never. A `WalkPlan` says how, for one machine, and
`spec.kernel.walking` has the loop; `harness.registry` has the plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, Final, Generic

import attrs

from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep, Outcome, failure_of
from tidegauge.model_tests.harness.lockstep.forbidden import SHARE, drawn_forbidden
from tidegauge.model_tests.harness.lockstep.lockstep import Bind, Lockstep, M
from tidegauge.spec.kernel.guarded import EnumeratingMachine
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.walking import drawn_actions, random_of_walk

PERTURBATION_WEIGHTS: Final = (0, 0, 1)
NOTHING: Final[Mapping[tuple[str, str], int]] = MappingProxyType({})


def enabled_of_kind(machine: Machine[Any], state: Any, kind: type[Action]) -> Iterator[Action]:
    """The enabled actions of one class, for a machine that has no quicker way to find them."""
    return (action for action in machine.actions(state) if type(action) is kind)


def enabled_candidates(machine: Machine[Any], state: Any, kind: type[Any]) -> Iterator[Action]:
    """The enabled actions of one class, for a machine whose classes of action have candidates and a guard."""
    return (action for action in kind.candidates(machine, state) if not action.guard(machine, state))


@attrs.frozen
class WalkPlan(Generic[M]):
    """How the random walks of one machine are drawn."""

    draw: Callable[[Random], M]
    """The machine of a walk: its constants are drawn, and bound little."""
    perturbations: frozenset[type[Action]] = frozenset()
    """Classes of action that most walks leave out; of the others each walk has all."""
    weights: tuple[int, ...] = (1, 2, 4, 8)
    """One is drawn for each class of action that does not perturb."""
    rounds: tuple[Callable[[Lockstep[M], Random], Iterator[Action]], ...] = ()
    """Sequences of actions that a walk takes as a whole now and then."""
    forbidden_share: float = SHARE
    """Of the actions, those before which something forbidden is attempted."""
    round_shares: tuple[float, ...] = (0.05, 0.2)
    """How likely each choice is to be a round; one is drawn for each walk."""
    length: int = 100
    """Actions of a walk, unless it ends early."""
    enabled: Callable[[M, Any, type[Action]], Iterable[Action]] = enabled_of_kind
    """The enabled actions of one class in a state."""


def plan_of_models(machines: Sequence[M]) -> WalkPlan[M]:
    """Walks of these machines, each of which draws one of them: enough for a machine that has little to draw."""
    enumerating = all(isinstance(machine, EnumeratingMachine) for machine in machines)
    return WalkPlan(lambda rng: rng.choice(machines), enabled=enabled_candidates if enumerating else enabled_of_kind)


@attrs.frozen
class PlanStrategy(Generic[M]):
    """The next actions of one walk by its plan: a round, or one enabled action of a class drawn by weight.

    Classes of weight zero are never drawn, unlike in `spec.kernel.simulation`: a walk that can do nothing else ends.
    The enabled actions are found class by class until there is one, since to find all costs far more.
    """

    plan: WalkPlan[M]
    exponents: Mapping[type[Action], float]
    """Of each class that is ever drawn, 1 / its weight: the class with the largest `random() ** exponent` is first."""
    round_share: float

    @classmethod
    def drawn(cls, plan: WalkPlan[M], machine: M, rng: Random) -> PlanStrategy[M]:
        """The weights and the share of rounds of one walk."""
        weights = {
            kind: rng.choice(PERTURBATION_WEIGHTS if kind in plan.perturbations else plan.weights)
            for kind in machine.action_types
        }
        exponents = {kind: 1 / weight for kind, weight in weights.items() if weight}
        return cls(plan, exponents, rng.choice(plan.round_shares))

    def __call__(self, lockstep: Lockstep[M], rng: Random) -> Iterable[Action] | None:
        if self.plan.rounds and rng.random() < self.round_share:
            return rng.choice(self.plan.rounds)(lockstep, rng)
        random = rng.random
        drawn = {kind: random() ** exponent for kind, exponent in self.exponents.items()}
        for kind in sorted(drawn, key=drawn.__getitem__, reverse=True):
            enabled = lockstep.enabled(self.plan.enabled(lockstep.machine, lockstep.state, kind))
            if enabled:
                return (rng.choice(enabled),)
        return None


@attrs.frozen
class Walk(Generic[M]):
    """One walk: the machine that it drew, the actions that it took, and what went wrong, if anything."""

    number: int
    machine: M
    actions: tuple[Action, ...]
    failure: Outcome | None
    refused: Mapping[tuple[str, str], int] = NOTHING
    """How many requests both sides refused between the actions, by the name of the action and that of the error."""

    @property
    def steps(self) -> int:
        """The number of actions that were taken."""
        return len(self.actions)


def walk(
    plan: WalkPlan[M],
    bind: Bind[M],
    seed: int,
    number: int = 0,
    *,
    wrong: type[object] | None = None,
    length: int | None = None,
) -> Walk[M]:
    """Walk `number` of `seed`, of about `length` actions, beside what `bind` makes.

    `wrong` stands in the place of the class of the machine that it extends: so a bug may be in the specification, in
    what `bind` makes, or in both.
    """
    rng = random_of_walk(seed, number)
    drawn = plan.draw(rng)
    if wrong is not None:
        drawn = with_class(drawn, wrong)
    strategy = PlanStrategy.drawn(plan, drawn, rng)
    longest = plan.length if length is None else length
    lockstep = CheckedLockstep(drawn, bind(drawn))
    actions = drawn_actions(lockstep, strategy, rng, ended=lambda pair: len(pair.actions) >= longest)
    of_its_own = Random(f"{seed}/{number}/forbidden")
    failure = failure_of(lockstep, with_forbidden(lockstep, actions, of_its_own, plan.forbidden_share))
    return Walk(number, drawn, tuple(lockstep.actions), failure, dict(lockstep.refused))


def with_forbidden(lockstep: Lockstep[M], actions: Iterator[Action], rng: Random, share: float) -> Iterator[Action]:
    """The actions, and before some of them one that is refused: it changes nothing, and the walk goes on as without."""
    for action in actions:
        forbidden = drawn_forbidden(lockstep, rng, share)
        if forbidden is not None:
            yield forbidden
        yield action


def walks(
    plan: WalkPlan[M],
    bind: Bind[M],
    seed: int,
    count: int,
    *,
    first: int = 0,
    wrong: type[object] | None = None,
    length: int | None = None,
) -> Iterator[Walk[M]]:
    """`count` walks of `seed`, one at a time, from the walk with the number `first` on."""
    numbers = range(first, first + count)
    return (walk(plan, bind, seed, number, wrong=wrong, length=length) for number in numbers)


def first_failure(
    plan: WalkPlan[M],
    bind: Bind[M],
    seed: int,
    limit: int,
    *,
    first: int = 0,
    wrong: type[object] | None = None,
    length: int | None = None,
) -> Walk[M] | None:
    """The first of `limit` walks that fails, from the walk with the number `first` on; None if none does."""
    taken = walks(plan, bind, seed, limit, first=first, wrong=wrong, length=length)
    return next((found for found in taken if found.failure is not None), None)


def with_class(machine: M, wrong: type[object]) -> M:
    """The machine with a class in place of the one that it extends. Raises TypeError if the machine has none such."""
    for kind in machine.kinds:
        if issubclass(wrong, kind):
            exchanged: M = machine.exchanged(kind, wrong)  # type: ignore[assignment]
            return exchanged
    raise TypeError(f"{wrong.__name__} extends nothing that {machine.name} is made of")
