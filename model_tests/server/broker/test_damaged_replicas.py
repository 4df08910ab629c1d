"""What a broker does with a damaged replica, by its metadata: it is repaired only where nobody counts on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.server.broker.damaged_replicas import DamagedReplicas
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.storage.damage import Damage, Gap

GAP = Gap(5, 6, "it is damaged")


@attrs.define
class DamagedLog:
    """With a gap, until it is cut."""

    damage: Damage
    repaired: list[Gap] = attrs.field(factory=list)
    log_start_offset: int = 0
    log_end_offset: int = 5

    def repair(self) -> None:
        self.repaired, self.damage.gaps = self.damage.gaps, []


@pytest.mark.parametrize(
    ("leader", "isr", "elr", "known_epoch", "done"),
    [
        (0, {0}, set(), 3, "applied"),
        (NO_LEADER, set(), {0}, 3, "applied"),
        (1, {1}, set(), 3, "repaired"),
        (1, {1}, {0}, 3, "withdrawn"),
        (1, {0, 1}, set(), 3, "withdrawn"),
        (0, {0, 1}, set(), 3, "withdrawn"),
        (1, {1}, set(), 4, "withdrawn"),
        (1, {1}, set(), -1, "repaired"),
        (1, {1}, {0}, -1, "waits"),
        (1, {0, 1}, set(), -1, "waits"),
    ],
)
@pytest.mark.parametrize("in_doubt", [False, True])
def test_a_damaged_replica(
    leader: int, isr: set[int], elr: set[int], known_epoch: int, done: str, in_doubt: bool
) -> None:
    """One of which it is in doubt whether a segment is missing is repaired as well, and withdrawn for nothing."""
    if in_doubt and done == "withdrawn":
        done = "applied"
    withdrawn: list[str] = []
    tracer = cast(Any, SimpleNamespace(trace=None))
    damaged = DamagedReplicas(0, tracer, lambda partition, why: withdrawn.append(why), lambda partition, why: None)
    gaps, doubted = ((), (GAP,)) if in_doubt else ((GAP,), ())
    log = DamagedLog(Damage(cast(Any, None), "t-0", gaps, doubted))
    replica = SimpleNamespace(leader_epoch=known_epoch, high_watermark=9, resign=lambda: None)
    partition = SimpleNamespace(topic="t", index=0, key=("t", 0), log=log, replica=replica)
    registration = PartitionRegistration((0, 1), leader, 4, 7, frozenset(isr), elr=frozenset(elr))
    may_apply = damaged.may_apply(cast(Partition, partition), registration)
    assert may_apply == (done in ("applied", "repaired"))
    assert log.repaired == ([GAP] if done == "repaired" else [])
    assert bool(log.damage.doubted) == (in_doubt and done != "repaired")
    assert bool(withdrawn) == (done == "withdrawn")
    assert replica.high_watermark == (5 if log.repaired else 9)
