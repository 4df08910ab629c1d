"""What a coordinator of consumer groups makes of a record that never will be in the log: nobody stays for ever."""

from __future__ import annotations

from typing import Final

from tidegauge.impl.coordinators.groups.consumer.coordinator import RETRY_MS, ConsumerGroups, ConsumerWrite
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerHeartbeat, Topic
from tidegauge.model_tests.harness.cores.known_topics import Known

GROUP: Final = "group"
SESSION_MS: Final = 1_000
REBALANCE_MS: Final = 300
KNOWN: Final = Known({"orders": Topic("00000000-0000-0000-0000-000000000001", 2)}, 1, rack="")


def beat(core: ConsumerGroups, member: str, now_ms: int, epoch: int = 0) -> ConsumerWrite:
    """A heartbeat that is taken; the member owns nothing and says so."""
    request = ConsumerHeartbeat(
        GROUP, member, epoch, rebalance_timeout_ms=REBALANCE_MS, topics=("orders",), owned=frozenset()
    )
    made = core.heartbeat(request, KNOWN, SESSION_MS, now_ms)
    assert isinstance(made, ConsumerWrite)
    return made


def joined(*members: str) -> ConsumerGroups:
    """A coordinator whose group has these members since time 0, all of it committed."""
    core = ConsumerGroups()
    for member in members:
        core.written(beat(core, member, 0))
    return core


def members(core: ConsumerGroups) -> set[str]:
    group = core.get(GROUP)
    assert group is not None
    return {*group.members}


def test_a_member_whose_removal_was_not_written_is_removed_a_little_later() -> None:
    core = joined("a", "b")
    core.written(beat(core, "b", SESSION_MS - 1, epoch=3))
    (removal,) = core.time_passed(SESSION_MS)
    assert members(core) == {"b"}
    core.failed(removal, SESSION_MS)
    assert members(core) == {"a", "b"}
    assert not list(core.time_passed(SESSION_MS + 1))
    assert list(core.time_passed(SESSION_MS + RETRY_MS))
    assert "a" not in members(core)


def test_time_that_runs_is_not_put_off_by_another_members_failed_write() -> None:
    core = joined("a")
    core.failed(beat(core, "b", 10), SESSION_MS - 1)
    assert members(core) == {"a"}
    assert list(core.time_passed(SESSION_MS)), "a's session ends when it would have"


def test_a_member_has_to_give_back_in_time_though_its_acknowledgement_was_not_written() -> None:
    core = joined("a")
    core.written(beat(core, "b", 0))
    told = core.heartbeat(ConsumerHeartbeat(GROUP, "a", 2), KNOWN, SESSION_MS, 0)
    assert isinstance(told, ConsumerWrite)
    core.written(told)
    acknowledged = beat(core, "a", REBALANCE_MS - 1, epoch=2)
    core.failed(acknowledged, REBALANCE_MS - 1)
    group = core.get(GROUP)
    assert group is not None
    assert group.members["a"].revoking
    assert list(core.time_passed(2 * REBALANCE_MS)), "it is removed if it does not say so again"
    assert "a" not in members(core)
