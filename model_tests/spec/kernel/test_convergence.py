"""Goals are reached for good in all bottom components, or a lasso shows why not; on machines to be counted by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import ClassVar

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds, Spent, spend
from tidegauge.spec.kernel.components import Edges
from tidegauge.spec.kernel.convergence import BottomComponents, cycle_through
from tidegauge.spec.kernel.explorer import Exploration, explore
from tidegauge.spec.kernel.guarded import EnumeratedAction, EnumeratingMachine
from tidegauge.spec.kernel.lasso import Lasso
from tidegauge.spec.kernel.liveness import minimise_lasso
from tidegauge.spec.kernel.machine import Action, Invariant
from tidegauge.spec.kernel.progress import Cut, Limits, Stop
from tidegauge.spec.kernel.symmetry import AsymmetryError
from tidegauge.spec.kernel.traces import Trace, replay


@attrs.frozen
class Lamps:
    """Lamps that burn or do not; how many have been knocked over."""

    burning: tuple[bool, ...]
    lying: tuple[bool, ...]
    spent: Spent = ()


@attrs.frozen
class LampAction(EnumeratedAction["Room", Lamps]):
    lamp: int

    @classmethod
    def candidates(cls, machine: Room, state: Lamps) -> Iterator[LampAction]:
        return (cls(lamp) for lamp in range(machine.lamps))


def changed(flags: tuple[bool, ...], place: int, to: bool) -> tuple[bool, ...]:
    return (*flags[:place], to, *flags[place + 1 :])


@attrs.frozen
class Knock(LampAction):
    """A cat; it harms, and is bounded."""

    bounded_as: ClassVar[str] = "Knock"

    def guard(self, machine: Room, state: Lamps) -> str:
        if state.lying[self.lamp] or not machine.may_perturb(state, "Knock"):
            return "no more"
        return ""

    def effect(self, machine: Room, state: Lamps) -> Lamps:
        spent = spend(state.spent, "Knock")
        return Lamps(changed(state.burning, self.lamp, False), changed(state.lying, self.lamp, True), spent)


@attrs.frozen
class Raise(LampAction):
    """It heals."""

    def guard(self, machine: Room, state: Lamps) -> str:
        return "" if state.lying[self.lamp] and machine.raises(self.lamp) else "it stands"

    def effect(self, machine: Room, state: Lamps) -> Lamps:
        return attrs.evolve(state, lying=changed(state.lying, self.lamp, False))


@attrs.frozen
class Light(LampAction):
    """It is the protocol."""

    def guard(self, machine: Room, state: Lamps) -> str:
        return "it burns" if state.burning[self.lamp] or state.lying[self.lamp] else ""

    def effect(self, machine: Room, state: Lamps) -> Lamps:
        return attrs.evolve(state, burning=changed(state.burning, self.lamp, True))


@attrs.frozen
class Blow(LampAction):
    """Somebody chooses to."""

    fair: ClassVar[bool] = False

    def guard(self, machine: Room, state: Lamps) -> str:
        return "" if state.burning[self.lamp] else "it is dark"

    def effect(self, machine: Room, state: Lamps) -> Lamps:
        return attrs.evolve(state, burning=changed(state.burning, self.lamp, False))


ONE_KNOCK = Bounds(Knock=1)


@attrs.frozen
class Room(EnumeratingMachine[Lamps]):
    """Lamps are knocked over, raised, lit and blown out; in the end all burn."""

    action_base = LampAction
    action_types: ClassVar[tuple[type[LampAction], ...]] = (Knock, Raise, Light, Blow)
    lamps: int = 2
    bounds: Bounds = ONE_KNOCK

    def initial(self) -> Iterator[Lamps]:
        yield Lamps((False,) * self.lamps, (False,) * self.lamps)

    def raises(self, lamp: int) -> bool:
        """The rule."""
        return True

    @property
    def converges(self) -> Mapping[str, Invariant[Lamps]]:
        return {"all lamps burn": lambda state: all(state.burning)}

    def explain(self, invariant: str, state: Lamps) -> Mapping[str, object]:
        return {"dark": tuple(lamp for lamp, burns in enumerate(state.burning) if not burns)}

    @property
    def interchangeable(self) -> int:
        return self.lamps

    def permute(self, state: Lamps, permutation: tuple[int, ...]) -> Lamps:
        back = sorted(range(self.lamps), key=permutation.__getitem__)
        burning, lying = (tuple(flags[lamp] for lamp in back) for flags in (state.burning, state.lying))
        return attrs.evolve(state, burning=burning, lying=lying)


@attrs.frozen
class NobodyRaises(Room):
    def raises(self, lamp: int) -> bool:
        return False


@attrs.frozen
class Flicker(Room):
    """Somebody has to: lamps go out again and again."""

    def is_fair(self, before: Lamps, action: Action, after: Lamps) -> bool:
        return isinstance(action, Blow) or super().is_fair(before, action, after)


def failure(found: Exploration[Lamps]) -> Lasso[Lamps]:
    assert found.convergence is not None
    (lasso,) = found.convergence.lassos
    return lasso


def test_what_heals_leads_every_bottom_component_to_the_goal() -> None:
    found = explore(Room(), converges=True)
    assert found.convergence is not None
    assert found.holds
    # All burn: before the cat came, and after.
    assert (found.convergence.components, found.convergence.states) == (2, 2)
    assert found.convergence.goals == ("all lamps burn",)


def test_a_state_in_which_nothing_fair_can_happen_is_checked_and_comes_with_a_shortest_way() -> None:
    found = explore(NobodyRaises(), converges=True)
    lasso = failure(found)
    assert not found.holds
    assert not found.violations
    assert lasso.stem.actions == (Knock(0), Light(1))
    assert lasso.cycle == ()
    assert lasso.values == {"dark": (0,)}
    assert lasso.words == "nothing fair can happen any more"


def test_a_cycle_of_fair_steps_is_a_lasso_that_replays() -> None:
    lasso = failure(explore(Flicker(), converges=True))
    assert [step.action for step in lasso.cycle] == [Light(0), Blow(0)]
    assert (lasso.component, lasso.false_in) == (4, 3)
    again = replay(Flicker(), lasso.trace.actions)
    assert not again.skipped
    assert again.trace.last == lasso.stem.last
    assert lasso.words == "fair steps lead to 4 states, each again and again, and it is false in 3 of them"


def test_a_perturbation_rescues_nothing_though_its_bound_is_not_spent() -> None:
    @attrs.frozen
    class OnlyTheCatLights(Room):
        """A lamp is lit only once one was knocked over."""

        action_types = (Knock, Raise, Blow, LightAfterAKnock)

    found = explore(OnlyTheCatLights(), converges=True)
    assert failure(found).stem.actions == ()
    assert failure(found).cycle == ()


@attrs.frozen
class LightAfterAKnock(Light):
    def guard(self, machine: Room, state: Lamps) -> str:
        return super().guard(machine, state) if state.spent else "nothing has happened"


def test_choices_of_clients_are_not_counted_on() -> None:
    @attrs.frozen
    class LitByChoice(Room):
        action_types = (Knock, Raise, ChooseToLight)

    assert failure(explore(LitByChoice(), converges=True)).stem.actions == ()


@attrs.frozen
class ChooseToLight(Light):
    fair: ClassVar[bool] = False


def test_it_is_asked_for_and_a_machine_without_goals_is_not_checked() -> None:
    @attrs.frozen
    class Aimless(Room):
        @property
        def converges(self) -> Mapping[str, Invariant[Lamps]]:
            return {}

    assert explore(NobodyRaises()).convergence is None
    assert explore(NobodyRaises()).holds
    assert explore(Aimless(), converges=True).convergence is None


def test_a_violated_invariant_comes_first() -> None:
    @attrs.frozen
    class Dark(NobodyRaises):
        @property
        def invariants(self) -> Mapping[str, Invariant[Lamps]]:
            return {"NeverAllLight": lambda state: not all(state.burning)}

    found = explore(Dark(), converges=True, stop=Stop.NEVER)
    assert found.violations
    assert found.convergence is None


def test_a_search_that_was_cut_checks_what_it_has_seen_whole() -> None:
    @attrs.frozen
    class Creaking(NobodyRaises):
        action_types = (*Room.action_types, Creak)

    found = explore(Creaking(bounds=Bounds(Knock=1, Creak=9)), converges=True, limits=Limits(depth=5))
    assert found.cut is Cut.DEPTH
    assert failure(found).stem.actions == (Knock(0), Light(1))
    found = explore(Room(), converges=True, limits=Limits(depth=2))
    assert found.convergence is not None
    assert (found.convergence.components, found.convergence.lassos) == (0, ())


@attrs.frozen
class Creak(LampAction):
    """It harms nobody; it makes a search long."""

    bounded_as: ClassVar[str] = "Creak"

    def guard(self, machine: Room, state: Lamps) -> str:
        return "" if machine.may_perturb(state, "Creak") else "all is quiet"

    def effect(self, machine: Room, state: Lamps) -> Lamps:
        return attrs.evolve(state, spent=spend(state.spent, "Creak"))


# --- symmetry ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Room, NobodyRaises, Flicker])
@pytest.mark.parametrize("lamps", [2, 3])
def test_orbits_are_checked_as_their_states_are(kind: type[Room], lamps: int) -> None:
    machine = kind(lamps, Bounds(Knock=2))
    whole, reduced = explore(machine, converges=True), explore(machine, converges=True, symmetry=True)
    assert whole.convergence is not None
    assert reduced.convergence is not None
    assert reduced.distinct < whole.distinct
    assert [each.goal for each in reduced.convergence.lassos] == [each.goal for each in whole.convergence.lassos]
    for lasso in reduced.convergence.lassos:
        again = replay(machine, lasso.trace.actions)
        assert (again.trace.last, again.skipped) == (lasso.stem.last, ())


def test_a_goal_that_tells_processes_apart_is_refused_under_symmetry() -> None:
    @attrs.frozen
    class Favourite(NobodyRaises):
        @property
        def converges(self) -> Mapping[str, Invariant[Lamps]]:
            return {"the first lamp burns": lambda state: state.burning[0]}

    assert failure(explore(Favourite(), converges=True)).stem.actions == (Knock(0), Light(1))
    with pytest.raises(AsymmetryError, match="'the first lamp burns' of Favourite tells interchangeable"):
        explore(Favourite(), converges=True, symmetry=True)


# --- components ----------------------------------------------------------------------------------------------------


def test_bottom_components_are_those_of_reachability() -> None:
    """Held against the definition, on random graphs; some of their states were not expanded."""
    sizes: set[int] = set()
    for seed in range(300):
        rng = Random(seed)
        count = rng.randint(1, 9)
        graph = [[rng.randrange(count + 1) for _ in range(rng.choice((0, 1, 1, 2)))] for _ in range(count)]
        edges = Edges()
        for targets in graph:
            for target in targets:
                edges.add(target)
            edges.close()
        found = {tuple(component) for component in edges.bottom_components()}
        assert found == set(by_reachability(graph))
        sizes.update(map(len, found))
    assert {1, 2, 3} <= sizes


def by_reachability(graph: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """States that reach exactly each other; the last number of all stands for what was not expanded."""
    reach = [reached_from(graph, state) for state in range(len(graph))]
    for state, reached in enumerate(reach):
        if len(graph) not in reached and all(reach[other] == reached for other in reached):
            assert state in reached
            yield tuple(sorted(reached))


def reached_from(graph: list[list[int]], state: int) -> set[int]:
    reached, queue = {state}, [state]
    for place in queue:
        for target in graph[place] if place < len(graph) else ():
            if target not in reached:
                reached.add(target)
                queue.append(target)
    return reached


def test_a_path_of_many_states_needs_no_recursion() -> None:
    edges = Edges()
    for state in range(50_000):
        edges.add(state + 1)
        edges.close()
    edges.add(49_999)
    edges.close()
    assert list(edges.bottom_components()) == [[49_999, 50_000]]


def test_components_are_found_from_any_state_in_any_order() -> None:
    machine = Flicker(3, Bounds(Knock=1))
    found = explore(machine, converges=True)
    assert found.convergence is not None
    states = [trace.last for trace in reachable(machine)]
    at_once = BottomComponents(machine)
    for state in reversed(states):
        at_once.of(state)
    members = {state for state in states if at_once.of(state)}
    assert len(members) == found.convergence.states
    assert all(set(at_once.of(state)) == set(BottomComponents(machine).of(state)) for state in states)


def reachable(machine: Room) -> Iterator[Trace[Lamps]]:
    """A trace to each reachable state."""
    (initial,) = machine.initial()
    traces = {initial: Trace(initial)}
    queue = [initial]
    for state in queue:
        yield traces[state]
        for action, after in machine.successors(state):
            if after not in traces:
                traces[after] = replay(machine, (*traces[state].actions, action)).trace
                queue.append(after)


def test_a_state_that_is_not_come_back_to_has_no_cycle() -> None:
    (initial,) = Room().initial()
    assert cycle_through(Room(), initial) == ()


# --- minimising --------------------------------------------------------------------------------------------------


def test_a_long_way_is_cut_down_to_what_the_failure_needs() -> None:
    machine = NobodyRaises(3)
    actions = (Light(0), Light(1), Blow(0), Light(2), Knock(2), Light(0), Blow(1), Light(1))
    long = BottomComponents(machine).lasso("all lamps burn", replay(machine, actions).trace)
    assert long is not None
    short = minimise_lasso(machine, long)
    assert sorted(map(repr, short.stem.actions)) == sorted(map(repr, (Knock(2), Light(0), Light(1))))
    assert short.values == {"dark": (2,)}


def test_what_does_not_fail_is_not_minimised() -> None:
    lasso = failure(explore(NobodyRaises(), converges=True))
    with pytest.raises(ValueError, match="'all lamps burn' does not fail for good on Room"):
        minimise_lasso(Room(), lasso)
