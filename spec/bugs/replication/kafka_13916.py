"""KAFKA-13916: a fenced replica joins the ISR."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import NONE, Controller


@attrs.frozen
class FencedReplicaJoins(Replication):
    """The rule before KIP-841: the controller did not ask whether a member is live."""

    def is_eligible_for_isr(self, controller: Controller, broker: int, broker_epoch: int) -> bool:
        return broker_epoch in (NONE, controller.sessions[broker].broker_epoch)


BUG = Bug(
    name="kafka_13916",
    title="fenced replica joins the ISR",
    reference="KAFKA-13916, KIP-841",
    mechanism="A fenced broker goes on fetching, so its leader proposes it, and the controller writes it into the ISR.",
    violates=("IsrIsUnfenced",),
    buggy=FencedReplicaJoins,
    model=Replication(brokers=2, max_records=1, bounds=Bounds(ExpireSession=1)),
)
