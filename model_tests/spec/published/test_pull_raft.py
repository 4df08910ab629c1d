"""What the published PullRaft model is made of; TLC's counts of it are in `test_tlc`."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.published.kraft.state import NOBODY, Entry, Position
from tidegauge.spec.published.pull_raft import variants
from tidegauge.spec.published.pull_raft.actions import AcceptPullEntriesRequest
from tidegauge.spec.published.pull_raft.machine import PullRaft, leader_has_all_acked_values
from tidegauge.spec.published.pull_raft.state import PullEntriesRequest, PullEntriesResponse, Role, Server
from tidegauge.spec.published.pull_raft_2.actions import LearnOfLeader
from tidegauge.spec.published.pull_raft_2.machine import PullRaft2
from tidegauge.spec.published.pull_raft_2.state import UNKNOWN, LeaderNotifyRequest, second

LOG = (Entry(2, 0), Entry(2, 1), Entry(4, 2))


def leader(log: tuple[Entry, ...], epoch: int) -> Server:
    """A leader of three servers, of which one has all of its log."""
    return Server(epoch, Role.LEADER, 0, log, 0, (0, 1), (0, len(log), 0))


@pytest.mark.parametrize(
    ("end", "common"),
    [
        (Position(), Position()),
        (Position(1, 1), Position()),
        (Position(1, 2), Position(1, 2)),
        (Position(5, 2), Position(2, 2)),
        (Position(1, 3), Position(2, 2)),
        (Position(3, 4), Position(3, 4)),
    ],
)
def test_the_last_common_entry_is_the_leaders_last_one_that_is_not_behind_the_followers(
    end: Position, common: Position
) -> None:
    assert PullRaft().last_common(leader(LOG, 4), end) == common
    assert PullRaft().truncated(LOG, common) == LOG[: common.offset]
    is_valid = PullRaft().is_valid(leader(LOG, 4), PullEntriesRequest(1, 0, 4, end))
    assert is_valid is (end == common)


def test_an_entry_of_a_former_epoch_is_committed_with_one_of_the_leaders_own() -> None:
    assert PullRaft().commit_index(0, leader(LOG, 4)) == 3
    assert PullRaft().commit_index(0, leader(LOG, 5)) == 0
    assert PullRaft().commit_index(0, leader((), 5)) == 0


def test_a_vote_is_given_once_in_an_epoch() -> None:
    voter = Server(2, Role.FOLLOWER, NOBODY, LOG, 0, (), (0, 0, 0))
    assert [PullRaft().is_free_for(attrs.evolve(voter, leader=one), 1) for one in (NOBODY, 1, 2)] == [True, True, False]


@pytest.mark.parametrize("constant", ["servers", "values"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(PullRaft(**{constant: 0}).initial()))


def test_a_violation_shows_who_leads_and_the_logs() -> None:
    machine = variants.PullCommitsWithoutMajority(values=1, max_elections=2)
    found = explore(machine, symmetry=True, stop=Stop.FIRST)
    values: dict[str, Any] = dict(found.violations[0].values)
    assert sorted(values["commit indexes"]) == [0, 0, 1]
    assert values["acknowledged"] == [0]


def test_who_is_told_of_a_leader_with_its_vote_truncates_its_log_and_who_has_not_voted_keeps_it() -> None:
    leader = attrs.evolve(
        second(next(iter(PullRaft2().initial())).servers[0]),
        epoch=5,
        log=LOG,
        voters_ends=(UNKNOWN, Position(3, 3), UNKNOWN),
    )
    told = [PullRaft2().told(leader, server) for server in range(3)]
    assert told == [UNKNOWN, Position(2, 2), UNKNOWN]
    diverging = attrs.evolve(leader, log=(*LOG[:2], Entry(3, 2)))
    logs = [
        LearnOfLeader(LeaderNotifyRequest(0, server, 5, told[server])).handled(PullRaft2(), diverging)[0].log
        for server in (1, 2)
    ]
    assert logs == [LOG[:2], diverging.log]


def test_a_former_leader_may_lack_what_a_later_one_has_acknowledged() -> None:
    """The property speaks of the leader of the latest epoch alone."""
    (state,) = PullRaft(servers=3, values=1).initial()
    former, latest, follower = state.servers
    has_it = evolve(latest, role=Role.LEADER, epoch=2, leader=1, log=(Entry(2, 0),))
    lacks_it = evolve(former, role=Role.LEADER, epoch=1, leader=0)
    state = evolve(state, servers=(lacks_it, has_it, follower), acked=(True,))
    assert leader_has_all_acked_values(state)
    assert not leader_has_all_acked_values(evolve(state, servers=(lacks_it, evolve(has_it, log=()), follower)))


def test_a_leader_tells_no_higher_commit_index_than_the_follower_has_entries() -> None:
    machine = PullRaft(servers=3, values=2)
    own = evolve(leader(LOG, epoch=4), commit_index=3)
    request = PullEntriesRequest(1, 0, 4, Position(1, 2))
    _, response = AcceptPullEntriesRequest(request).handled(machine, own)
    assert isinstance(response, PullEntriesResponse)
    assert (response.entries, response.commit_index) == ((Entry(2, 1),), 2)
