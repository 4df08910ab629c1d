"""An extension of replication brings what a cluster needs beside it: its steps, and its parts of the state.

The extension of this file counts the flushes that an operator orders. No other file knows it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar, Final

import attrs
import pytest

from tidegauge.model_tests.harness.cluster.binding import ClusterBinding, ClusterExtension
from tidegauge.model_tests.harness.cluster.steps import ReplicationCluster
from tidegauge.model_tests.harness.cores.replication import CORRECT
from tidegauge.model_tests.harness.lockstep.lockstep import Difference, Lockstep
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.model_tests.harness.registry import HARNESS, ON_CLUSTER, Side
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.registry import REGISTRY, NotRegisteredError
from tidegauge.spec.replication.actions import Append, BrokerAction
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import Replica, State


@attrs.frozen
class Flushes(Part):
    """Of a replica: how many flushes were ordered."""

    count: int = 0


@attrs.frozen
class FlushByOrder(BrokerAction):
    """An operator orders a flush."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        flushed = attrs.evolve(replica, flushed=replica.log_end_offset)
        return state.with_replica(self.broker, with_part(flushed, Flushes(Flushes.of(replica).count + 1)))


@attrs.frozen
class Ordered(ReplicationExtension):
    """Flushes by order."""

    action_types: ClassVar[tuple[type[Action], ...]] = (FlushByOrder,)
    part_types: ClassVar[tuple[type[Part], ...]] = (Flushes,)


async def flush_by_order(binding: ClusterBinding, action: FlushByOrder, before: State) -> None:
    binding.broker(action.broker).actions.flush()
    binding.extension(OrderedOnCluster).ordered[action.broker] += 1


class OrderedOnCluster(ClusterExtension):
    """The cluster's side."""

    extends = Ordered
    steps: ClassVar[Steps[ClusterBinding, [State], Awaitable[None]]] = Steps(on(FlushByOrder, flush_by_order))

    def __init__(self, binding: ClusterBinding) -> None:
        super().__init__(binding)
        self.ordered = [0] * binding.machine.brokers

    def replica(self, number: int, beside: Replica, seen: Replica) -> Replica:
        return with_part(seen, Flushes(self.ordered[number]))


class CountsNothing(OrderedOnCluster):
    """A cluster that is in another state than the specification's, in the extension's part."""

    def replica(self, number: int, beside: Replica, seen: Replica) -> Replica:
        return seen


MACHINE: Final = Replication(extensions=(Ordered(),)).without_bounds()
ACTIONS: Final = (Append(0), FlushByOrder(0), FlushByOrder(2))


def performed(extension: type[ClusterExtension]) -> State:
    pair = Lockstep(MACHINE, ReplicationCluster(MACHINE, CORRECT, (*ON_CLUSTER, extension)))
    try:
        assert all(map(pair.perform, ACTIONS))
        state: State = pair.state
        return state
    finally:
        pair.close()


def test_its_actions_are_performed_and_its_parts_compared() -> None:
    state = performed(OrderedOnCluster)
    assert [Flushes.of(replica).count for replica in state.replicas] == [1, 0, 1]
    assert state.replicas[0].flushed == 1


def test_a_difference_in_its_part_is_found() -> None:
    with pytest.raises(Difference) as found:
        performed(CountsNothing)
    assert found.value.path == "replicas[0].parts[0]"


@pytest.mark.parametrize(
    ("machine", "missing"),
    [
        (MACHINE, "Ordered"),
        (REGISTRY.machine("damage"), "Damage"),
        (REGISTRY.machine("lost-logs"), "Damage, LostLogs"),
    ],
    ids=["one of a test", "damage", "lost logs"],
)
def test_a_cluster_refuses_an_extension_that_it_has_no_part_for(machine: Replication, missing: str) -> None:
    with pytest.raises(NotRegisteredError, match=f"no cluster performs {missing}: give it a ClusterExtension"):
        HARNESS["replication"].bind(Side.CLUSTER)(machine)
