"""What TLC's runs of the published models of KIP-853 and KIP-996 do not come to: voters that change, restarts."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.model_tests.spec.shortest import steps_to
from tidegauge.spec.kernel.explorer import Limits, explore
from tidegauge.spec.published.kip853 import variants
from tidegauge.spec.published.kip853.actions import RestartWithState
from tidegauge.spec.published.kip853.machine import Kip853
from tidegauge.spec.published.kip853.state import (
    Command,
    Config,
    Entry,
    FetchRequest,
    FetchResponse,
    RequestVoteResponse,
    Role,
    Server,
    State,
)
from tidegauge.spec.published.kip996.actions import RestartWithState as RestartWithVote
from tidegauge.spec.published.kip996.machine import Kip996
from tidegauge.spec.published.kraft.state import NOBODY, Error, Position, Result

MODELS = (Kip853(), Kip996())
ADDING = {"servers": 1, "max_servers": 2, "hosts": 1, "max_epoch": 1, "min_voters": 1, "max_added": 1}
REMOVING = {"hosts": 1, "max_epoch": 1, "min_voters": 1, "max_removed": 1}


def started(model: Kip853) -> State:
    return next(iter(model.initial()))


def leader(model: Kip853, **changes: Any) -> Server:
    """Server 0, as it leads in the beginning."""
    return attrs.evolve(started(model).servers[0], **changes)


@pytest.mark.parametrize(
    ("machine", "goal", "steps"),
    [
        (Kip853(**ADDING), "a voter is added", 11),
        (Kip853(**REMOVING), "a voter is removed", 2),
        (Kip996(**ADDING), "a voter is added", 11),
        (Kip996(**REMOVING), "a voter is removed", 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Kip853) else str(value),
)
def test_voters_change_in_so_many_steps(machine: Kip853, goal: str, steps: int) -> None:
    assert steps_to(machine, goal, most=steps) == steps


@pytest.mark.parametrize("constants", [ADDING, REMOVING], ids=["adding", "removing"])
@pytest.mark.parametrize("kind", [Kip853, Kip996])
def test_properties_hold_where_voters_change(kind: type[Kip853], constants: dict[str, int]) -> None:
    assert explore(kind(**constants), limits=Limits(states=4_000)).holds


@pytest.mark.parametrize("model", MODELS, ids=["kip853", "kip996"])
def test_voters_change_one_at_a_time_and_only_once_the_leader_has_committed_in_its_epoch(model: Kip853) -> None:
    own = leader(model)
    assert model.may_reconfigure(own)
    assert not model.may_reconfigure(attrs.evolve(own, epoch=2))
    assert not model.may_reconfigure(attrs.evolve(own, hw=0))
    added = model.reconfigured(own, Command.ADD_VOTER, 2, (0, 1, 2))
    assert not model.may_reconfigure(added)
    assert added.config == Config(2, (0, 1, 2), False)
    assert added.log[1:] == (Entry(1, Command.ADD_VOTER, config=2, server=2, members=(0, 1, 2)),)
    assert added.ends == ((0, 1), (1, 1), (2, 0))


@pytest.mark.parametrize(("model", "role"), [(Kip853(), Role.UNATTACHED), (Kip996(), Role.RESIGNED)])
def test_a_leader_leaves_once_it_has_committed_that_it_is_a_voter_no_more(model: Kip853, role: Role) -> None:
    own = model.reconfigured(leader(model), Command.REMOVE_VOTER, 0, (1,))
    assert [model.leaves(0, own, hw) for hw in (1, 2)] == [False, True]
    assert not model.leaves(1, own, 2)
    assert not model.leaves(0, attrs.evolve(own, hw=2), 2)
    left = model.without_leader(0, own)
    assert (left.role, left.leader, left.epoch) == (role, 0 if role == Role.RESIGNED else NOBODY, 1)


@pytest.mark.parametrize(
    ("model", "roles"),
    [(Kip853(), {Role.RESIGNED}), (Kip996(), {Role.RESIGNED, Role.PROSPECTIVE, Role.UNATTACHED})],
    ids=["kip853", "kip996"],
)
def test_who_is_told_that_it_leads_and_does_not_may_have_resigned_or_be_an_observer(
    model: Kip853, roles: set[Role]
) -> None:
    own = leader(model)
    assert {role for role in Role if model.may_have_led(0, attrs.evolve(own, role=role))} == roles
    assert all(model.may_have_led(2, attrs.evolve(own, role=role)) for role in Role)
    resigned = attrs.evolve(own, role=Role.RESIGNED)
    assert model.has_consistent_leader(0, resigned, 0, 1)
    assert not model.has_consistent_leader(0, resigned, 0, 2)
    assert not model.has_consistent_leader(0, attrs.evolve(own, role=Role.FOLLOWER), 0, 1)


def test_a_response_that_tells_of_a_leader_is_for_nothing_else_but_in_kip_996() -> None:
    vote = RequestVoteResponse(1, 0, 1, 1, True)
    fetch = FetchRequest(0, 1, 1, Position(1, 1), False)
    refusal = FetchResponse(1, 0, 1, fetch, Result.NOT_OK, 1, 0, Error.UNKNOWN_LEADER_EPOCH)
    assert [Kip853().is_all(one) for one in (vote, refusal)] == [True, True]
    assert [Kip996().is_all(one) for one in (vote, refusal)] == [False, True]
    candidate = leader(Kip996(), role=Role.CANDIDATE, leader=NOBODY)
    for model, is_all in zip(MODELS, (True, False), strict=True):
        after = attrs.evolve(candidate, role=Role.FOLLOWER, leader=1)
        assert model.responded(0, candidate, vote) == (after, is_all)


def test_a_vote_is_given_to_one_candidate_and_forgotten_by_who_leads_in_kip_996() -> None:
    voted = leader(Kip996(), role=Role.UNATTACHED, voted_for=1)
    assert [Kip996().is_free_for(voted, candidate) for candidate in (1, 2)] == [True, False]
    candidate = leader(Kip996(), role=Role.CANDIDATE, voted_for=0, epoch=2)
    for model, vote in zip(MODELS, (0, NOBODY), strict=True):
        elected = model.elected(0, candidate)
        assert (elected.role, elected.leader, elected.voted_for) == (Role.LEADER, 0, vote)
        assert elected.log[-1] == Entry(2, Command.LEADER_CHANGE)


@pytest.mark.parametrize("model", MODELS, ids=["kip853", "kip996"])
def test_a_log_is_truncated_behind_the_last_entry_that_is_not_behind_the_leaders(model: Kip853) -> None:
    log = tuple(Entry(epoch, Command.APPEND) for epoch in (2, 2, 4))
    ends = (Position(), Position(1, 2), Position(5, 2), Position(1, 3), Position(3, 4))
    assert [len(model.truncated(log, end)) for end in ends] == [0, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("model", "restart", "leader_then"),
    [(Kip853(max_restarts=1), RestartWithState(0), NOBODY), (Kip996(max_restarts=1), RestartWithVote(0), 0)],
    ids=["kip853", "kip996"],
)
def test_a_leader_that_restarts_has_resigned_and_its_clients_are_told(
    model: Kip853, restart: RestartWithState, leader_then: int
) -> None:
    written = next(
        after for action, after in model.successors(started(model)) if type(action).__name__.endswith("ClientRequest")
    )
    after = model.step(written, restart)
    own = after.servers[0]
    assert (own.role, own.leader, own.hw, own.unacked) == (Role.RESIGNED, leader_then, 0, ())
    assert [outcome.name for outcome in after.values] == ["FAILED"]
    assert len(own.log) == 2


@pytest.mark.parametrize("constant", ["servers", "hosts", "values"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(Kip853(**{constant: 0}).initial()))


def test_a_violation_shows_who_leads_the_voters_and_the_logs() -> None:
    model = variants.Kip853CommitsWithoutMajority(servers=3, max_servers=3)
    values: dict[str, Any] = dict(explore(model).violations[0].values)
    assert set(values["voters"]) == {(0, 1, 2)}
    assert max(values["high watermarks"]) == 2
    assert [outcome.name for outcome in values["values"]] == ["ACKED"]
