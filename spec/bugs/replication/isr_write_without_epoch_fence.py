"""An ISR write without the epoch fence: a deposed leader's proposal is written. Not historical: no version did so."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import AlterPartitionRequest, Controller, Error


@attrs.frozen
class IsrWriteWithoutEpochFence(Replication):
    """The controller asks only whether the members are eligible."""

    def alter_partition_error(self, controller: Controller, request: AlterPartitionRequest) -> Error:
        eligible = all(self.is_eligible_for_isr(controller, broker, epoch) for broker, epoch in request.isr)
        return Error.OK if eligible else Error.INELIGIBLE_REPLICA


BUG = Bug(
    name="isr_write_without_epoch_fence",
    title="ISR write without the epoch fence",
    reference="not historical: the fence of KIP-497, left out",
    mechanism="An overtaken leader changes the ISR under its successor, which then waits for the wrong replicas.",
    violates=("LeaderInIsr", "ReplicationQuorumSuperset", "LeaderCandidateCompleteness", "StrongIsr", "WeakIsr"),
    buggy=IsrWriteWithoutEpochFence,
    model=Replication(brokers=3, max_records=1, bounds=Bounds(ShrinkIsr=1, ExpireSession=1)),
)
