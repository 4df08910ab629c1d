"""The brokers of a lockstep of groups that go over: those of consumer groups, with a policy, and members of both."""

from __future__ import annotations

from typing import Final

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerDeadline, ConsumerTimer
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.server.broker_server import Broker
from tidegauge.model_tests.harness.cluster.consumer_brokers import ConsumerBrokers
from tidegauge.model_tests.harness.cores.consumer_abstraction import GROUP, ConsumerRoles, Numbers
from tidegauge.model_tests.harness.cores.group_migration import MigrationRoles
from tidegauge.model_tests.harness.cores.migration_beside import POLICIES
from tidegauge.spec.groups.migration.machine import GroupMigration as Machine

POLICY: Final = "group.consumer.migration.policy"


class MigrationBrokers(ConsumerBrokers):
    """A cluster with the log of groups, and the machine's policy."""

    machine: Machine

    def __init__(self, machine: Machine, roles: MigrationRoles, numbers: Numbers) -> None:
        self.migration_roles = roles
        super().__init__(machine, ConsumerRoles(), numbers, {POLICY: POLICIES[machine.policy].value})

    def _drive(self, broker: Broker) -> None:
        """As its base; the end of a member id that the coordinator makes is the specification's number."""
        super()._drive(broker)
        groups, made = broker.groups, broker.groups.new_state

        def new_state(index: int, leader_epoch: int) -> GroupCoordinator:
            state = made(index, leader_epoch)
            state.migration.rules = self.migration_roles.rules(state.migration.rules.limits, state.consumers.rules)
            return state

        groups.new_state = new_state  # type: ignore[method-assign]
        groups.members.unique_id = lambda: f"{self.member_ids:03}"  # type: ignore[method-assign]

    def is_waited_for(self, timer: ConsumerTimer, member_id: str) -> bool:
        """Whether a member of a consumer group has so much time, and no more."""
        core = self.core
        return core is not None and core.consumers.deadlines.get(ConsumerDeadline(GROUP, timer, member_id)) is not None
