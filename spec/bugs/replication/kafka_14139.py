"""KAFKA-14139: a replica that lost its disk is taken for the one that was caught up."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import NONE, Replica


@attrs.frozen
class IsrWithoutBrokerEpochs(Replication):
    """The rule before KIP-903: a proposal names brokers, not their incarnations."""

    def isr_with_broker_epochs(self, leader: Replica, broker: int, isr: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        return tuple((member, NONE) for member in isr)


BUG = Bug(
    name="kafka_14139",
    title="stale incarnation joins the ISR",
    reference="KAFKA-14139, KIP-903",
    mechanism=(
        "A follower catches up and is proposed; it crashes, loses its tail and registers anew before the proposal "
        "arrives, and is written into the ISR without the committed records."
    ),
    violates=("LeaderCandidateCompleteness", "StrongIsr", "WeakIsr"),
    buggy=IsrWithoutBrokerEpochs,
    model=Replication(brokers=2, max_records=1, bounds=Bounds(ShrinkIsr=1, Crash=1)),
)
