"""Random members at a coordinator: whatever they do, no request is lost, and what is kept twice says the same."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import Leaving
from tidegauge.impl.coordinators.groups.classic.state import ClassicState, Protocol
from tidegauge.impl.coordinators.groups.classic.turn import DeadlineKey, Timer
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.coordinators.groups.members import Members

STEPS = 250
INSTANCES = (None, None, "i", "j")
PROTOCOLS = (
    (Protocol("range", b"1"),),
    (Protocol("range", b"2"), Protocol("sticky", b"2")),
    (Protocol("sticky", b"3"),),
)


class Walk:
    """A random walk, and the ids that clients were told."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.group = Members(max_size=self.rng.choice((2, 4, 100)))
        self.asked: set[str] = set()
        self.ids = [""]

    def token(self, kind: str) -> str:
        token = f"{kind} {len(self.asked)}"
        self.asked.add(token)
        return token

    def step(self) -> None:
        rng, group = self.rng, self.group
        known = group.core.get("g")
        member_id, instance = rng.choice(self.ids[-6:]), rng.choice(INSTANCES)
        if known is not None and known.members and rng.random() < 0.8:
            member = rng.choice(list(known.members.values()))
            member_id, instance = member.member_id, member.instance_id
        generation = rng.choice((0, 1)) if known is None or rng.random() < 0.1 else known.generation
        match rng.randrange(10):
            case 0 | 1:
                times = {"session_timeout_ms": rng.choice((6_000, 30_000)), "rebalance_timeout_ms": 20_000}
                protocols = rng.choice(PROTOCOLS)
                version = rng.choice((3, 8, 9))
                anew = rng.choice(("", member_id))
                group.join(
                    self.token("join"), anew, instance_id=instance, protocols=protocols, version=version, **times
                )
            case 2 | 3 | 4:
                assigned = tuple((one, one.encode()) for one in self.ids)
                group.sync(self.token("sync"), member_id, generation, instance_id=instance, assignments=assigned)
            case 5:
                group.heartbeat(member_id, generation, instance)
            case 6 if rng.random() < 0.5:
                group.leave(self.token("leave"), Leaving(rng.choice(("", member_id)), instance))
            case 7 | 8:
                group.commit() if rng.random() < 0.8 else group.refuse(ErrorCode.coordinator_not_available)
            case _:
                group.after(rng.choice((10, 1_000, 4_000)))
        self.ids += [one.member_id for one in group.responses.values() if getattr(one, "member_id", "")][-3:]

    def check(self) -> None:
        """What must be true after each step."""
        group = self.group
        waiting = [token for write in group.writes for token, _ in write.responses]
        deadlines = group.core.deadlines
        for known in group.core:
            members = known.members.values()
            waiting += [token for one in members for token in (one.joining, one.syncing) if token is not None]
            assert known.joined == sum(one.joining is not None for one in members)
            assert known.supported == Counter(protocol.name for one in members for protocol in one.protocols)
            assert known.instances == {one.instance_id: one.member_id for one in members if one.instance_id is not None}
            assert (known.leader in known.members) if members else known.leader is None
            assert set(known.unsynced) <= set(known.members)
            assert known.state is not ClassicState.EMPTY or not members
            assert known.state in (ClassicState.EMPTY, ClassicState.PREPARING_REBALANCE) or members
            kept = {DeadlineKey("g", Timer.SESSION, one.member_id): one.session_deadline for one in members}
            kept |= {DeadlineKey("g", Timer.SESSION, one): deadline for one, deadline in known.pending.items()}
            kept |= {
                DeadlineKey("g", Timer.JOIN): known.join_deadline,
                DeadlineKey("g", Timer.SYNC): known.sync_deadline,
            }
            assert {key: deadlines.get(key) for key in kept} == kept
            assert len(deadlines) == sum(deadline is not None for deadline in kept.values()), "none of who has gone"
            is_joining = known.state is ClassicState.PREPARING_REBALANCE
            assert is_joining == (known.join_deadline is not None)
            assert all(one.session_deadline is not None or one.is_waiting for one in members), "each ends some day"
        assert sorted(map(str, waiting)) == sorted(self.asked - set(group.responses))


@pytest.mark.parametrize("seed", range(amount(12, deep=40)))
def test_no_request_is_lost_and_what_is_kept_twice_says_the_same(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
        walk.check()
    group = walk.group
    group.commit()
    for _ in range(3):
        group.after(10 * 60_000)
        group.commit()
    assert not walk.asked - {token for token in walk.asked if token in group.responses}, "all were told in the end"
    assert not any(known.members for known in group.core)
