"""ISR write without the epoch fence: a deposed leader's proposal changes the ISR under its successor."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class IsrWriteWithoutEpochFence(Controller):
    """Only the members are looked at, not who proposes them, nor on which state of the partition."""

    def alter_partition_error(self, registration: PartitionRegistration, request: AlterPartitionRequest) -> ErrorCode:
        eligible = all(self.is_eligible_for_isr(broker_id, broker_epoch) for broker_id, broker_epoch in request.isr)
        return ErrorCode.none if eligible else ErrorCode.ineligible_replica


BUG = CoreBug("isr_write_without_epoch_fence", Roles(controller=IsrWriteWithoutEpochFence))
