"""Lockstep under Hypothesis: examples are drawn from a machine's rules, run, minimised and saved.

`LockstepRules` is what the rules of all machines have in common. A machine's own rules extend it (`replication_rules`);
for a machine without any, `rules_of_plan` makes one rule for each class of action. `drive` runs a number of examples
beside a binding and returns what it found. A failing example is minimised by leaving out actions, which is far quicker
than letting Hypothesis shrink its choices, and comes as a counterexample that can be saved and replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, ClassVar, Generic

import attrs
import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Expected, Failure, Found
from tidegauge.model_tests.harness.lockstep.forbidden import drawn_forbidden
from tidegauge.model_tests.harness.lockstep.lockstep import Bind, Difference, Lockstep, M
from tidegauge.model_tests.harness.lockstep.minimising import minimise
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan
from tidegauge.model_tests.harness.repeatable_examples import ignore_constants_of_modules
from tidegauge.spec.kernel.machine import Action, Machine


@attrs.define
class Tally:
    """What a series of examples did."""

    examples: int = 0
    actions: Counter[str] = attrs.field(factory=Counter)
    failing: tuple[Machine[Any], tuple[Action, ...]] | None = None
    """The machine and the actions of the example that failed."""
    walks_to_failure: int | None = None


class LockstepRules(RuleBasedStateMachine, Generic[M]):
    """The rules of a machine; `drive` makes a subclass for a binding."""

    bind: ClassVar[Bind[Any]]
    tally: ClassVar[Tally]

    def __init__(self) -> None:
        super().__init__()
        self.lockstep: Lockstep[M] | None = None

    def begin(self, machine: M) -> None:
        """Begin an example; each subclass calls this in its `initialize` rule."""
        self.tally.examples += 1
        self.lockstep = Lockstep(machine, type(self).bind(machine))

    def perform_all(self, actions: Callable[[Lockstep[M]], Iterator[Action]]) -> None:
        """Perform actions that are chosen one by one, each in the state that the former ones led to."""
        if self.lockstep is not None:
            for action in actions(self.lockstep):
                self.perform(action)

    def perform(self, action: Action | None) -> None:
        """Perform an action if it is enabled. Raises Difference, once the example is noted as the failing one."""
        lockstep = self.lockstep
        if lockstep is None or action is None:
            return
        try:
            self._attempt_forbidden(lockstep)
            if lockstep.perform(action):
                self.tally.actions[action.name] += 1
        except Difference:
            if self.tally.walks_to_failure is None:
                self.tally.walks_to_failure = self.tally.examples
            self.tally.failing = lockstep.machine, tuple(lockstep.sent)
            raise

    def _attempt_forbidden(self, lockstep: Lockstep[M]) -> None:
        """Now and then something that is refused; what it is depends on the example so far, and costs it no choice."""
        rng = Random(f"{len(lockstep.actions)}/{len(lockstep.sent)}")
        forbidden = drawn_forbidden(lockstep, rng)
        if forbidden is not None:
            lockstep.perform(forbidden)

    def teardown(self) -> None:
        if self.lockstep is not None:
            self.lockstep.close()


def rules_of_plan(plan: WalkPlan[M], action_types: tuple[type[Action], ...]) -> type[LockstepRules[M]]:
    """One rule for each class of action, which performs one of the actions of that class that are enabled."""

    class Rules(LockstepRules[M]):
        @initialize(seed=st.integers(0, 2**16))
        def draw_machine(self, seed: int) -> None:
            self.begin(plan.draw(Random(seed)))

        @precondition(lambda self: self.lockstep is not None and not any(_enabled(self, plan, k) for k in action_types))
        @rule()
        def end(self) -> None:
            """Nothing more can happen, but Hypothesis wants a rule."""

    for kind in action_types:
        _add_rule(Rules, plan, kind)
    return Rules


def _enabled(rules: LockstepRules[M], plan: WalkPlan[M], kind: type[Action]) -> list[Action]:
    lockstep = rules.lockstep
    return [] if lockstep is None else lockstep.enabled(plan.enabled(lockstep.machine, lockstep.state, kind))


def _add_rule(rules: type[LockstepRules[M]], plan: WalkPlan[M], kind: type[Action]) -> None:
    def happen(self: LockstepRules[M], place: int) -> None:
        found = _enabled(self, plan, kind)
        self.perform(found[place % len(found)] if found else None)

    happen.__name__ = happen.__qualname__ = kind.__name__
    guarded = precondition(lambda self: bool(_enabled(self, plan, kind)))(happen)
    setattr(rules, kind.__name__, rule(place=st.integers(0, 7))(guarded))


# --- running it ----------------------------------------------------------------------------------------------------


@attrs.frozen
class LockstepRun:
    """What a number of examples showed."""

    examples: int
    actions: Counter[str]
    """Actions performed, by name."""
    counterexample: Counterexample | None
    difference: str
    """The difference with all fields; empty when there is none."""
    walks_to_failure: int | None
    """Examples up to the first that failed."""

    @property
    def holds(self) -> bool:
        return self.counterexample is None

    @property
    def steps(self) -> int:
        return self.actions.total()


def drive(
    rules: type[LockstepRules[Any]],
    bind: Bind[Any],
    *,
    name: str,
    examples: int,
    seed: int | None = None,
    steps: int = 50,
    bug: str | None = None,
) -> LockstepRun:
    """Run `examples` examples of up to `steps` rules each beside what `bind` makes; `name` says what that is.

    Without a seed the examples are the same in every run. `bug` is the name of the bug that `bind` switches on, for the
    counterexample.
    """
    ignore_constants_of_modules()
    tally = Tally()
    kind = type("Lockstep", (rules,), {"bind": staticmethod(bind), "tally": tally})
    if seed is not None:
        hypothesis.seed(seed)(kind)
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=seed is None,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    with suppress(Difference):
        run_state_machine_as_test(kind, settings=settings)
    if tally.failing is None:
        return LockstepRun(tally.examples, tally.actions, None, "", None)
    machine, actions = tally.failing
    shortest, difference = minimise(bind, machine, actions)
    expected = Expected(Failure.DIFFERENCE, difference.path)
    counterexample = Counterexample(machine, bug, shortest, expected, Found(name, seed))
    return LockstepRun(tally.examples, tally.actions, counterexample, str(difference), tally.walks_to_failure)
