"""Rules of administration that are wrong: one for each rule that a property tells from the right one, or lockstep."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.settings import Change, Resource
from tidegauge.spec.administration.state import NONE, Error, Partition, Settings, State, Topic
from tidegauge.spec.kernel.evolving import evolve

# --- settings --------------------------------------------------------------------------------------------------------


@attrs.frozen
class IgnoresTopics(Administration):
    """Only what all brokers are told counts."""

    def setting(self, state: State, topic: Topic, name: str, default: str) -> str:
        return dict(state.of_all_brokers).get(name, default)


@attrs.frozen
class AlwaysUnclean(Administration):
    """Whatever a topic says, any live replica may lead."""

    def elects_uncleanly(self, state: State, topic: Topic) -> bool:
        return True


@attrs.frozen
class NeverUnclean(Administration):
    """Whatever a topic says, it waits."""

    def elects_uncleanly(self, state: State, topic: Topic) -> bool:
        return False


@attrs.frozen
class TakesAnyValue(Administration):
    """Settings are not checked, as long as what is to have them is there."""

    def settings_error(self, state: State, resource: Resource, settings: Settings) -> Error:
        return super().settings_error(state, resource, settings[:0] if self.is_one_broker(resource) else ())


@attrs.frozen
class ForgetsAll(Administration):
    """What all brokers are told may be taken away."""

    def is_told_to_all(self, resource: Resource, settings: Settings) -> bool:
        return False


@attrs.frozen
class TellsOneBroker(Administration):
    """One broker may have a number of its own, by which nobody decides."""

    def is_one_broker(self, resource: Resource) -> bool:
        return False


@attrs.frozen
class NoConsequences(Administration):
    """Partitions go on as if no setting had changed."""

    def with_consequences(self, old: State, state: State, name: int, before: Topic) -> State:
        return state


@attrs.frozen
class SameEpoch(Administration):
    """A leader that goes by the old number is not told from one that knows the new one."""

    def renumbered(self, state: State, topic: Topic, partition: Partition) -> Partition:
        epoch = partition.partition_epoch
        return evolve(super().renumbered(state, topic, partition), partition_epoch=epoch)


@attrs.frozen
class SameEligible(Administration):
    """Who is eligible is not decided anew."""

    def renumbered(self, state: State, topic: Topic, partition: Partition) -> Partition:
        return evolve(partition, partition_epoch=partition.partition_epoch + 1)


# --- leaders ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class EligibleForEver(Administration):
    """A replica stays eligible when enough others are in sync."""

    def elr_after(
        self, state: State, topic: Topic, partition: Partition, isr: frozenset[int], elr: frozenset[int]
    ) -> frozenset[int]:
        return elr - isr


@attrs.frozen
class NobodyEligible(Administration):
    """Who leaves the ISR does not count any more."""

    def elr_after(
        self, state: State, topic: Topic, partition: Partition, isr: frozenset[int], elr: frozenset[int]
    ) -> frozenset[int]:
        return frozenset()


@attrs.frozen
class KeepsTheEpoch(Administration):
    """A replica that leaves the list is none of the next epoch's business."""

    def begins_epoch(self, old: Partition, new: Partition) -> bool:
        return new.leader != old.leader


@attrs.frozen
class Waits(Administration):
    """Nobody leads after the leader has gone."""

    def elect(self, state: State, partition: Partition, *, is_unclean_allowed: bool) -> tuple[int, bool]:
        return NONE, False


@attrs.frozen
class FirstIsBest(Administration):
    """Where nobody has everything, the first replica leads."""

    def best_left(self, partition: Partition) -> int:
        return partition.replicas[0]


@attrs.frozen
class NobodyIsBest(Administration):
    """Where nobody has everything, nobody leads."""

    def best_left(self, partition: Partition) -> int:
        return NONE


@attrs.frozen
class PrefersAnyway(Administration):
    """The preferred replica leads, though it is not in sync."""

    def may_prefer(self, partition: Partition) -> bool:
        return True


@attrs.frozen
class StaysInSync(Administration):
    """A broker that is fenced stays in the ISR."""

    def fenced(self, state: State, topic: Topic, partition: Partition, broker: int) -> Partition:
        return partition


@attrs.frozen
class ForgetsTheFenced(Administration):
    """A broker that is fenced is not eligible."""

    def fenced(self, state: State, topic: Topic, partition: Partition, broker: int) -> Partition:
        return super().removed(state, topic, partition, broker)


@attrs.frozen
class TrustsNewProcesses(Administration):
    """A new process is as good as the one before."""

    def restarted(self, state: State, topic: Topic, partition: Partition, broker: int) -> Partition:
        return partition


@attrs.frozen
class EligibleThoughGone(Administration):
    """A broker that was removed is eligible."""

    def removed(self, state: State, topic: Topic, partition: Partition, broker: int) -> Partition:
        return super().fenced(state, topic, partition, broker)


# --- topics and replicas ---------------------------------------------------------------------------------------------


@attrs.frozen
class ListsTheRemoved(Administration):
    """A replica list may name a broker that nobody knows any more."""

    def assignment_error(self, state: State, brokers: Sequence[int]) -> Error:
        return super().assignment_error(evolve(state, is_registered=(True,) * self.brokers), brokers)


@attrs.frozen
class CountsTwice(Administration):
    """A replica list may name a broker twice."""

    def assignment_error(self, state: State, brokers: Sequence[int]) -> Error:
        return super().assignment_error(state, tuple(set(brokers)))


@attrs.frozen
class AnyNumberOfReplicas(Administration):
    """Each partition of a topic has as many replicas as it is given."""

    def assignments_error(self, state: State, assignments: Sequence[Sequence[int]], factor: int) -> Error:
        return max(Administration.assignments_error(self, state, (one,), len(one)) for one in assignments)


@attrs.frozen
class InSyncThoughDown(Administration):
    """All replicas of a new partition are in sync."""

    def new_partition(self, state: State, replicas: tuple[int, ...]) -> Partition:
        return evolve(super().new_partition(state, replicas), isr=frozenset(replicas))


@attrs.frozen
class GrowsOnItsWay(Administration):
    """A topic grows while its replicas move."""

    def growth_error(self, topic: Topic, count: int) -> Error:
        return Error.NONE if count > len(topic.partitions) else Error.INVALID_PARTITIONS


@attrs.frozen
class MovesAtOnce(Administration):
    """Only the target is left, no matter who is in sync."""

    def reassigned(self, partition: Partition, target: tuple[int, ...]) -> Partition:
        return self.only_on(partition, target)


@attrs.frozen
class NeverThere(Administration):
    """A reassignment does not end."""

    def completed(self, partition: Partition) -> Partition:
        return partition


@attrs.frozen
class ThereTooSoon(Administration):
    """A reassignment ends when one of its target is in sync."""

    def completed(self, partition: Partition) -> Partition:
        is_there = partition.is_reassigned and not partition.isr.isdisjoint(partition.target)
        return self.only_on(partition, partition.target) if is_there else partition


@attrs.frozen
class InSyncThoughGone(Administration):
    """Who is no replica any more stays in the ISR."""

    def only_on(self, partition: Partition, replicas: tuple[int, ...]) -> Partition:
        return evolve(super().only_on(partition, replicas), isr=partition.isr)


@attrs.frozen
class CancelsAnyway(Administration):
    """A reassignment is cancelled though nobody who remains has everything."""

    def may_cancel(self, state: State, topic: Topic, partition: Partition) -> bool:
        return True


# --- producer ids ----------------------------------------------------------------------------------------------------


@attrs.frozen
class GivesFormerProcesses(Administration):
    """A former process of a broker gets a block."""

    def block_error(self, state: State, broker: int, *, is_last_process: bool) -> Error:
        return super().block_error(state, broker, is_last_process=True)


@attrs.frozen
class GivesMoreThanThereAre(Administration):
    """There is always a block."""

    def block_error(self, state: State, broker: int, *, is_last_process: bool) -> Error:
        return super().block_error(evolve(state, blocks=1), broker, is_last_process=is_last_process)


# --- what lockstep alone notices -------------------------------------------------------------------------------------


@attrs.frozen
class TakesAnyOperation(Administration):
    """Operations are not checked, only the settings that they come to: the state is none that it may not be."""

    def change_error(self, resource: Resource, changes: Sequence[Change]) -> Error:
        return Error.NONE


@attrs.frozen
class ElectsThoughOneLeads(Administration):
    """An unclean election of a partition that has a leader: it leads on, and the operator is told another thing."""

    def may_elect_uncleanly(self, partition: Partition) -> bool:
        return True


NOTICED_BY_LOCKSTEP = (TakesAnyOperation, ElectsThoughOneLeads)
