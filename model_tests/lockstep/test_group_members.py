"""A member's core does what the specification says, in walks whose members stay; broken rules are found."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import attrs
import pytest

from tidegauge.impl.client.assignors.subscription import Assignor, Partition, Subscription
from tidegauge.impl.client.membership import Changes, Membership, State
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles
from tidegauge.model_tests.harness.cores.group_clients import ClientRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.processes import NoticePartitions, Resubscribe
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action

SEED, WALKS, WITHIN = 3, 10, 60
OFTEN = 1_000
REGISTERED = HARNESS["classic-groups"]


def lasting_members(rng: Random) -> ClassicGroups:
    """Members that stay: what they give back, and what their leader notices, comes of their own rules."""
    bounds = dict.fromkeys(ClassicGroups().perturbations, 0)
    bounds |= dict.fromkeys(("LoseConnection", "Resubscribe", "DelayHeartbeat", "ExpireRebalance"), rng.choice((1, 3)))
    bounds |= {"AddPartition": 2, "Crash": 1, "ExpireSession": rng.choice((0, 1)), "Leave": rng.choice((0, 1))}
    return ClassicGroups(
        processes=rng.choice((2, 3)),
        cooperative=rng.random() < 0.75,
        partitions=rng.choice((2, 3)),
        topics=rng.choice((1, 2)),
        commits=rng.choice((0, OFTEN)),
        bounds=Bounds(bounds),
    )


PLAN = attrs.evolve(REGISTERED.walk_plan(), draw=lasting_members, perturbations=frozenset())
LASTING = attrs.evolve(REGISTERED, plan=PLAN)


def test_walks_of_members_that_stay_find_no_difference() -> None:
    taken: set[type[Action]] = set()
    for found in LASTING.walks(SEED, WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken >= {NoticePartitions, Resubscribe}


# --- rules that are broken -----------------------------------------------------------------------------------------


class IsAlwaysContent(Membership):
    """It gives something back, and does not say so by joining again."""

    def synced(self, partitions: Iterable[Partition]) -> Changes:
        changes = super().synced(partitions)
        self.state = State.STABLE
        return changes


class KeepsWhatItHasLost(Membership):
    def kept_on_joining(self) -> tuple[Partition, ...]:
        return tuple(each for each in self.owned if self.is_cooperative and each[0] in self.topics)


class SaysNothingOfWhatItHas(Membership):
    def says(self, assignor: Assignor) -> Subscription:
        return attrs.evolve(super().says(assignor), owned=())


class LeadsForEver(Membership):
    def join(self) -> None:
        leads = self.leads
        super().join()
        self.leads = leads


class CommitsOnlyWhenSettled(Membership):
    def may_commit(self) -> bool:
        return self.state is State.STABLE


@pytest.mark.parametrize(
    "broken",
    [
        IsAlwaysContent,
        KeepsWhatItHasLost,
        SaysNothingOfWhatItHas,
        LeadsForEver,
        CommitsOnlyWhenSettled,
    ],
)
def test_a_member_with_a_broken_rule_is_found_within_few_walks(broken: type[Membership]) -> None:
    roles = GroupRoles(clients=ClientRoles(membership=broken))
    assert LASTING.first_failure(SEED, WITHIN, roles=roles) is not None
