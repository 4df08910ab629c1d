"""What is owed comes under weak fairness, or a lasso shows why not; on small machines, and on random ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from random import Random
from typing import Any, ClassVar

import attrs
import pytest

from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.lasso import Lasso
from tidegauge.spec.kernel.leads_to import Waiting
from tidegauge.spec.kernel.liveness import Failures, minimise_lasso
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, Machine
from tidegauge.spec.kernel.plain import PlainSearch
from tidegauge.spec.kernel.progress import UNLIMITED, Cut, Limits, Stop
from tidegauge.spec.kernel.symmetry import AsymmetryError
from tidegauge.spec.kernel.traces import Trace, replay

SERVED = "who asks is served"


@attrs.frozen
class Counter:
    """Who has asked, whether the door is open."""

    asking: tuple[bool, ...]
    is_open: bool = True


@attrs.frozen
class Ask(Action):
    fair: ClassVar[bool] = False
    client: int


@attrs.frozen
class Serve(Action):
    client: int


@attrs.frozen
class Toggle(Action):
    """Somebody opens or closes the door."""

    fair: ClassVar[bool] = False


@attrs.frozen
class Shop(Machine[Counter]):
    """Clients ask and are served."""

    action_types = (Ask, Serve, Toggle)
    clients: int = 2
    has_door: bool = False

    def initial(self) -> Iterator[Counter]:
        yield Counter((False,) * self.clients)

    def actions(self, state: Counter) -> Iterator[Action]:
        for client, asks in enumerate(state.asking):
            if not asks:
                yield Ask(client)
            elif state.is_open and self.may_serve(state, client):
                yield Serve(client)
        if self.has_door:
            yield Toggle()

    def may_serve(self, state: Counter, client: int) -> bool:
        """The rule."""
        return True

    def step(self, state: Counter, action: Action) -> Counter:
        match action:
            case Ask(client) | Serve(client):
                asking = (*state.asking[:client], isinstance(action, Ask), *state.asking[client + 1 :])
                return attrs.evolve(state, asking=asking)
        return attrs.evolve(state, is_open=not state.is_open)

    @property
    def leads_to(self) -> Mapping[str, LeadsTo[Counter]]:
        return {SERVED: LeadsTo(lambda state: state.asking[0], lambda state: not state.asking[0])}

    def explain(self, invariant: str, state: Counter) -> Mapping[str, object]:
        return {"asking": state.asking}


@attrs.frozen
class Unjust(Shop):
    """The first client is served only while nobody else asks."""

    def may_serve(self, state: Counter, client: int) -> bool:
        return client > 0 or not any(state.asking[1:])


@attrs.frozen
class Shut(Shop):
    """The first client is never served."""

    def may_serve(self, state: Counter, client: int) -> bool:
        return client > 0


def failure(found: Exploration[Counter]) -> Lasso[Counter]:
    assert found.responses is not None
    (lasso,) = found.responses.lassos
    assert found.lassos == (lasso,)
    assert not found.holds
    return lasso


def test_what_stays_possible_comes_though_clients_never_rest() -> None:
    found = explore(Shop(), converges=True)
    assert found.responses is not None
    assert found.responses.names == (SERVED,)
    assert found.responses.holds
    assert found.holds


def test_what_is_possible_only_now_and_then_need_not_come() -> None:
    lasso = failure(explore(Unjust(), converges=True))
    assert lasso.stem.actions[: lasso.since] == (Ask(0),)
    assert {type(step.action) for step in lasso.cycle} == {Ask, Serve}
    assert {getattr(step.action, "client", None) for step in lasso.cycle} == {1}, "the other one comes back for ever"
    assert lasso.words == "it is owed from step 1 on, and weak fairness lets 2 states go on for ever"
    assert lasso.values == {"asking": lasso.stem.last.asking}
    again = replay(Unjust(), lasso.trace.actions)
    assert (again.trace.last, again.skipped) == (lasso.stem.last, ())


def test_a_door_that_somebody_closes_again_and_again_is_no_promise() -> None:
    lasso = failure(explore(Shop(has_door=True), converges=True))
    assert Toggle() in lasso.trace.actions
    assert all(step.state.asking[0] for step in lasso.cycle)


@pytest.mark.parametrize("has_door", [False, True])
def test_standing_still_is_a_failure_where_nothing_fair_is_possible(has_door: bool) -> None:
    lasso = failure(explore(Shut(clients=1, has_door=has_door), converges=True))
    assert (lasso.stem.actions, lasso.cycle, lasso.since) == ((Ask(0),), (), 1)
    assert lasso.words == "it is owed from step 1 on, and nothing fair can happen any more"


def test_convergence_trusts_more_than_weak_fairness_does() -> None:
    @attrs.frozen
    class InTheEnd(Unjust):
        @property
        def converges(self) -> Mapping[str, Invariant[Counter]]:
            return {"nobody asks": lambda state: not any(state.asking)}

    found = explore(InTheEnd(), converges=True)
    assert found.convergence is not None
    assert found.convergence.holds
    assert failure(found).goal == SERVED


def test_it_is_asked_for_and_of_whole_searches_without_violations_alone() -> None:
    @attrs.frozen
    class Forbidden(Unjust):
        @property
        def invariants(self) -> Mapping[str, Invariant[Counter]]:
            return {"NobodyAsks": lambda state: not any(state.asking)}

    assert explore(Unjust()).responses is None
    assert explore(Forbidden(), converges=True, stop=Stop.NEVER).responses is None
    cut = explore(Unjust(), converges=True, limits=Limits(states=2))
    assert (cut.cut, cut.responses) == (Cut.STATES, None)


def test_a_stem_is_cut_down_to_what_the_failure_needs() -> None:
    machine = Unjust(3)
    stem = replay(machine, (Ask(1), Ask(2), Serve(2), Ask(0), Serve(1), Ask(2), Ask(1))).trace
    lasso = Failures(machine).lasso(SERVED, stem)
    assert lasso is not None
    assert lasso.since == 4
    assert minimise_lasso(machine, lasso).stem.actions == (Ask(0),)


def test_what_has_come_is_not_owed_any_more() -> None:
    machine = Shut()
    assert Failures(machine).lasso(SERVED, replay(machine, (Ask(1),)).trace) is None
    assert Failures(Shop()).lasso(SERVED, replay(Shop(), (Ask(0),)).trace) is None
    assert Failures(Shop()).lasso(SERVED, replay(Shop(), (Ask(0), Serve(0))).trace) is None


# --- both engines, symmetry --------------------------------------------------------------------------------------


@attrs.frozen
class Alike(Unjust):
    """Nobody is served while just two ask; so the clients may be renamed."""

    def may_serve(self, state: Counter, client: int) -> bool:
        return sum(state.asking) != 2

    @property
    def leads_to(self) -> Mapping[str, LeadsTo[Counter]]:
        return {"one is served": LeadsTo(lambda state: all(state.asking), lambda state: not all(state.asking))}

    @property
    def interchangeable(self) -> int:
        return self.clients

    def permute(self, state: Counter, permutation: tuple[int, ...]) -> Counter:
        back = sorted(range(self.clients), key=permutation.__getitem__)
        return attrs.evolve(state, asking=tuple(state.asking[client] for client in back))


@pytest.mark.parametrize("clients", [2, 3])
def test_with_symmetry_the_verdict_is_the_same(clients: int) -> None:
    whole = explore(Alike(clients), converges=True)
    reduced = explore(Alike(clients), converges=True, symmetry=True)
    assert whole.responses is not None
    assert reduced.responses is not None
    assert whole.responses.holds is reduced.responses.holds is (clients == 3)
    for lasso in reduced.responses.lassos:
        assert not replay(Alike(clients), lasso.trace.actions).skipped


def test_what_tells_processes_apart_is_refused_under_symmetry() -> None:
    @attrs.frozen
    class Favourite(Alike):
        @property
        def leads_to(self) -> Mapping[str, LeadsTo[Counter]]:
            return {SERVED: LeadsTo(lambda state: state.asking[0], lambda state: not state.asking[0])}

    with pytest.raises(AsymmetryError, match="'who asks is served' of Favourite tells interchangeable"):
        explore(Favourite(), converges=True, symmetry=True)


def test_the_fast_engine_tells_the_same() -> None:
    pytest.importorskip("numba")
    plain, fast = (explore(Unjust(), converges=True, engine=engine) for engine in Engine)
    assert fast.responses == plain.responses
    assert fast.responses is not None
    assert not fast.responses.holds


# --- against the definition -----------------------------------------------------------------------------------------


@attrs.frozen
class Turn(Action):
    """One of a few, fair or not."""

    number: int


@attrs.frozen
class Graph(Machine[int]):
    """A random graph of a few states, with steps by numbered actions, fair in some states."""

    action_types = (Turn,)
    steps: tuple[tuple[tuple[int, int], ...], ...] = ()
    owed: frozenset[int] = frozenset()
    come: frozenset[int] = frozenset()
    fair: frozenset[tuple[int, int]] = frozenset()
    """State and number."""

    def initial(self) -> Iterator[int]:
        yield 0

    def actions(self, state: int) -> Iterator[Action]:
        return (Turn(number) for number, _ in self.steps[state])

    def step(self, state: int, action: Action) -> int:
        assert isinstance(action, Turn)
        return dict(self.steps[state])[action.number]

    def is_fair(self, before: int, action: Action, after: int) -> bool:
        return isinstance(action, Turn) and (before, action.number) in self.fair

    @property
    def leads_to(self) -> Mapping[str, LeadsTo[int]]:
        return {"it comes": LeadsTo(self.owed.__contains__, self.come.__contains__)}


def drawn(seed: int) -> Graph:
    rng = Random(seed)
    count = rng.randint(1, 6)
    steps = []
    for _ in range(count):
        numbers = rng.sample(range(4), rng.choice((0, 1, 1, 2, 2, 3)))
        steps.append(tuple((number, rng.randrange(count)) for number in sorted(numbers)))
    owed, come = (frozenset(state for state in range(count) if rng.random() < share) for share in (0.4, 0.3))
    fair = frozenset((state, number) for state in range(count) for number, _ in steps[state] if rng.random() < 0.7)
    return Graph(tuple(steps), owed, come, fair)


def fails_by_definition(machine: Graph) -> bool:
    """Whether some set of states without what is owed, each reached from each, may be gone through for ever."""
    reached = reached_from(machine, {0}, frozenset())
    begins = {state for state in reached if state in machine.owed and state not in machine.come}
    waiting = reached_from(machine, begins, machine.come)
    sizes = range(1, len(waiting) + 1)
    return any(lasts(machine, set(states)) for size in sizes for states in combinations(sorted(waiting), size))


def reached_from(machine: Graph, states: set[int], without: frozenset[int]) -> set[int]:
    reached, queue = set(states), list(states)
    for state in queue:
        for _, target in machine.steps[state]:
            if target not in reached and target not in without:
                reached.add(target)
                queue.append(target)
    return reached


def lasts(machine: Graph, states: set[int]) -> bool:
    outside = frozenset(range(len(machine.steps))) - states
    if any(reached_from(machine, {state}, outside) != states for state in states):
        return False
    inner = {(state, number) for state in states for number, target in machine.steps[state] if target in states}
    taken = {number for _, number in inner & machine.fair}
    return all(number in taken or any((state, number) not in machine.fair for state in states) for number in range(4))


def check_lasso(machine: Graph, lasso: Lasso[int]) -> None:
    """The lasso is a behaviour, owes from `since` on, and is fair."""
    assert lasso.since is not None
    states = lasso.trace.states
    assert states[lasso.since] in machine.owed
    assert not machine.come & set(states[lasso.since :])
    again = replay(machine, lasso.trace.actions)
    assert (again.trace, again.skipped) == (lasso.trace, ())
    assert lasso.trace.last == lasso.stem.last
    round_of = states[len(lasso.stem.steps) :]
    taken = {(before, action) for before, action, _ in Trace(lasso.stem.last, lasso.cycle).transitions()}
    for number in range(4):
        is_taken = any((state, Turn(number)) in taken and (state, number) in machine.fair for state in round_of)
        assert is_taken or any((state, number) not in machine.fair for state in round_of)


def test_random_graphs_are_judged_as_the_definition_has_it() -> None:
    failed = turned = 0
    for seed in range(1_500):
        machine = drawn(seed)
        found = explore(machine, converges=True)
        assert found.responses is not None
        assert bool(found.responses.lassos) is fails_by_definition(machine), f"seed {seed}"
        for lasso in found.responses.lassos:
            failed += 1
            turned += bool(lasso.cycle)
            check_lasso(machine, lasso)
            at_end = Waiting(machine, lasso.goal).lasso_at(lasso.stem)
            assert at_end is not None
            check_lasso(machine, at_end)
    assert failed > 200
    assert turned > 100


@attrs.frozen
class OwesTwo(Graph):
    """The same with another name beside it, which is asked in the same breath at first."""

    also_owed: frozenset[int] = frozenset()
    also_come: frozenset[int] = frozenset()

    @property
    def leads_to(self) -> Mapping[str, LeadsTo[int]]:
        return {**super().leads_to, "so does that": LeadsTo(self.also_owed.__contains__, self.also_come.__contains__)}


def test_of_two_names_each_is_judged_by_itself() -> None:
    told = set()
    for seed in range(600):
        one = drawn(seed)
        rng = Random(f"also {seed}")
        owed, come = (frozenset(n for n in range(len(one.steps)) if rng.random() < share) for share in (0.5, 0.6))
        other = attrs.evolve(one, owed=owed, come=come)
        found = explore(OwesTwo(one.steps, one.owed, one.come, one.fair, owed, come), converges=True).responses
        assert found is not None
        failed = tuple(lasso.goal for lasso in found.lassos)
        by_definition = {"it comes": fails_by_definition(one), "so does that": fails_by_definition(other)}
        assert failed == tuple(name for name, fails in by_definition.items() if fails), f"seed {seed}"
        told.add(failed)
    assert len(told) == 4


def test_what_always_comes_again_is_not_asked_of_the_machine_once_more() -> None:
    """Of what is owed in every state, the steps of the search alone say whether it may be owed for ever."""
    open_ = 0
    for seed in range(600):
        graph = drawn(seed)
        everywhere = attrs.evolve(graph, owed=frozenset(range(len(graph.steps))))
        search = PlainSearch(everywhere, UNLIMITED, Stop.FIRST, None, None, converges=True)
        search.run()
        assert search.steps is not None
        has_come = {name: bytearray(map(one.then, search.states)) for name, one in everywhere.leads_to.items()}
        names = search.steps.left_open(has_come)
        assert bool(names) is fails_by_definition(everywhere), f"seed {seed}"
        open_ += bool(names)
    assert 100 < open_ < 500


@attrs.frozen
class AskedTwice(Graph):
    """The same with a goal, so that the fast engine notes which steps are fair, and asks of what is owed by them."""

    @property
    def converges(self) -> Mapping[str, Invariant[int]]:
        return {"it rests": lambda state: True}


def test_random_graphs_are_judged_alike_by_the_fast_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from tidegauge.spec.kernel.fast.owing import owed_for_ever

    begun: list[bool] = []

    def noted(*given: Any) -> Mapping[int, Any]:
        starts: Mapping[int, Any] = owed_for_ever(*given)
        begun.append(bool(starts))
        return starts

    monkeypatch.setattr("tidegauge.spec.kernel.fast.search.owed_for_ever", noted)
    for seed in range(200):
        graph = drawn(seed)
        machine = AskedTwice(graph.steps, graph.owed, graph.come, graph.fair)
        plain, fast = (explore(machine, converges=True, engine=engine).responses for engine in Engine)
        assert fast == plain, f"seed {seed}"
        assert plain is not None
        assert begun[seed] is not plain.holds, f"seed {seed}: states are looked at where it lasts, and only there"
    assert {*begun} == {True, False}
