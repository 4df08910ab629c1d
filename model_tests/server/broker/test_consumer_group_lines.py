"""What a broker says of consumer groups (KIP-848): epochs, members that come and go, and what is not written."""

from __future__ import annotations

import logging

import pytest

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups, ConsumerWrite
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerHeartbeat, HeartbeatResponse, Topic
from tidegauge.impl.server.broker.consumer_group_lines import ConsumerGroupLines
from tidegauge.model_tests.harness.cores.known_topics import Known

TOPICS = {"t": Topic("377561f6-1cb7-406d-bdff-d26520f8ad6a", 2)}
SESSION_MS = 1_000


class Groups:
    """A coordinator, and what is said of it."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.core = ConsumerGroups()
        self.lines = ConsumerGroupLines()
        self.caplog = caplog
        caplog.set_level(logging.DEBUG)

    def beat(self, member: str, epoch: int, **more: object) -> list[str]:
        """The lines about a heartbeat that is written."""
        request = ConsumerHeartbeat("g", member, epoch, **more)  # type: ignore[arg-type]
        made = self.core.heartbeat(request, Known(TOPICS), SESSION_MS, 0)
        assert isinstance(made, ConsumerWrite), made
        return self.written(made)

    def written(self, write: ConsumerWrite, *, is_expiry: bool = False) -> list[str]:
        self.caplog.clear()
        self.core.written(write)
        self.lines.written(write, is_expiry=is_expiry)
        return self.said()

    def said(self) -> list[str]:
        return [record.getMessage() for record in self.caplog.records]


@pytest.fixture
def groups(caplog: pytest.LogCaptureFixture) -> Groups:
    return Groups(caplog)


def join(groups: Groups, member: str, **more: object) -> list[str]:
    return groups.beat(member, 0, topics=("t",), rebalance_timeout_ms=500, owned=frozenset(), **more)


def test_a_member_that_joins_begins_an_epoch_and_the_group_is_stable_when_all_have_their_part(groups: Groups) -> None:
    assert join(groups, "a") == [
        "group member joined: group=g epoch=2 member=a members=1",
        'group rebalances: group=g epoch=2 members=1 why="a joins"',
        "group stable: group=g epoch=2 members=1",
    ]
    assert join(groups, "b")[1] == 'group rebalances: group=g epoch=3 members=2 why="b joins"'
    assert groups.beat("a", 2) == [], "it has to give back first"
    both = groups.core.groups["g"]
    kept = frozenset(both.members["a"].assigned)
    groups.beat("a", 2, owned=kept)
    assert groups.beat("b", 3)[-1:] == ["group stable: group=g epoch=3 members=2"]


def test_who_leaves_who_expires_and_who_is_replaced_are_told_apart(groups: Groups) -> None:
    join(groups, "a", instance_id="one")
    groups.beat("a", -2)
    assert 'static member replaced: group=g epoch=2 member=a members=1 why="it has come again, as b"' in join(
        groups, "b", instance_id="one"
    )
    join(groups, "c")
    assert "group member left: group=g epoch=4 member=c members=1" in groups.beat("c", -1)
    (expired,) = groups.core.time_passed(SESSION_MS)
    said = groups.written(expired, is_expiry=True)
    assert said[0].startswith("group member expired: group=g epoch=5 member=b why=")
    assert said[-1] == "group empty: group=g epoch=5"


def test_what_the_log_does_not_take_is_told(groups: Groups) -> None:
    request = ConsumerHeartbeat("g", "a", 0, topics=("t",), rebalance_timeout_ms=500, owned=frozenset())
    made = groups.core.heartbeat(request, Known(TOPICS), SESSION_MS, 0)
    assert not isinstance(made, HeartbeatResponse)
    groups.caplog.clear()
    groups.core.failed(made, 0)
    groups.lines.not_written(made)
    assert groups.said() == ['group not written: group=g epoch=2 members=1 why="its members try again"']
