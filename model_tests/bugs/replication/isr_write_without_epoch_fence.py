"""ISR write without the epoch fence: a deposed leader's proposal changes the ISR under its successor."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.isr_changes import IsrRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class IsrWriteWithoutEpochFence(IsrRules):
    """Only the members are checked, not the proposer, nor the state of the partition on which it proposes."""

    def error(
        self, image: ClusterImage, registration: PartitionRegistration, request: AlterPartitionRequest
    ) -> ErrorCode:
        eligible = all(self.is_eligible(image, broker_id, broker_epoch) for broker_id, broker_epoch in request.isr)
        return ErrorCode.none if eligible else ErrorCode.ineligible_replica


class UnfencedIsrController(Controller):
    isr_rules = IsrWriteWithoutEpochFence


BUG = CoreBug("isr_write_without_epoch_fence", Roles(controller=UnfencedIsrController))
