"""The coordinator of groups of a simulated cluster, with the classes that play each part of some machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias
from unittest.mock import patch

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.log_entries import log_entries
from tidegauge.impl.server.broker import groups
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog
from tidegauge.model_tests.harness.cores.classic_groups import CORRECT_GROUPS, GroupRoles
from tidegauge.model_tests.harness.cores.consumer_abstraction import ConsumerRoles
from tidegauge.model_tests.harness.cores.group_loading import LoadingRoles
from tidegauge.model_tests.harness.cores.group_migration import MigrationRoles
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles

CoordinatorRoles: TypeAlias = GroupRoles | ConsumerRoles | MigrationRoles | LoadingRoles | OffsetRoles
CORRECT: Final[CoordinatorRoles] = CORRECT_GROUPS
"""Those of production, whatever the machine."""


def coordinator_of(roles: CoordinatorRoles, limits: Limits) -> GroupCoordinator:
    """A coordinator of groups with these classes."""
    match roles:
        case GroupRoles():
            made = roles.coordinator(limits)
            made.classic.rules = roles.rules()
        case ConsumerRoles():
            made = GroupCoordinator(limits)
            made.consumers.rules = roles.rules()
        case MigrationRoles():
            made = GroupCoordinator(limits)
            made.migration.rules = roles.rules(made.migration.rules.limits, made.consumers.rules)
        case LoadingRoles():
            made = GroupCoordinator(limits)
            made.consumers = made.migration.consumers = roles.groups(limits.consumer)
        case OffsetRoles():
            made = roles.coordinator(limits)
            made.offsets = roles.offsets()
    return made


@contextmanager
def coordinating(roles: CoordinatorRoles) -> Iterator[None]:
    """The brokers that start meanwhile have such coordinators."""
    read, log = (roles.read, roles.log) if isinstance(roles, OffsetRoles) else (log_entries, CoordinatorLog)
    with (
        patch.object(groups, "GroupCoordinator", lambda limits: coordinator_of(roles, limits)),
        patch.object(groups, "log_entries", read),
        patch.object(groups, "CoordinatorLog", log),
    ):
        yield
