"""The controller's rules about what operators change: each is a method, which a mutant overrides."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidegauge.spec.administration.settings import (
    LONGEST,
    MIN_INSYNC,
    POLICY,
    UNCLEAN,
    VALUES,
    Change,
    Kind,
    Operation,
    Resource,
)
from tidegauge.spec.administration.state import NONE, Error, Partition, Settings, State, Topic
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratingMachine

DEFAULT_BOUNDS = Bounds(
    CreateTopic=1, DeleteTopic=1, Grow=1, Reassign=1, AlterSettings=1, Fence=1, Restart=1, Unregister=1
)


@attrs.frozen
class AdministrationRules(EnumeratingMachine[State]):
    """What the controller decides; the fields bound the search."""

    names: int = 1
    """Names that topics may have."""
    brokers: int = 2
    factor: int = 2
    """The most replicas of a partition."""
    max_partitions: int = 2
    settings: tuple[str, ...] = (MIN_INSYNC, UNCLEAN)
    """Those that are changed."""
    blocks: int = 1
    min_insync: int = 1
    """Of all brokers, at first."""
    bounds: Bounds = DEFAULT_BOUNDS

    # --- settings --------------------------------------------------------------------------------------------------

    def setting(self, state: State, topic: Topic, name: str, default: str) -> str:
        """A topic's setting, else that of all brokers."""
        return dict(topic.settings).get(name) or dict(state.of_all_brokers).get(name) or default

    def needed(self, state: State, topic: Topic, partition: Partition) -> int:
        """How many members an ISR needs to commit: never more than there are replicas."""
        return min(int(self.setting(state, topic, MIN_INSYNC, "1")), len(partition.replicas))

    def elects_uncleanly(self, state: State, topic: Topic) -> bool:
        return self.setting(state, topic, UNCLEAN, "false") == "true"

    def settings_of(self, state: State, resource: Resource) -> Settings:
        if resource.kind is Kind.TOPIC:
            topic = state.topic(resource.number)
            return () if topic is None else topic.settings
        if resource.kind is Kind.GROUP:
            return state.of_a_group
        return state.of_all_brokers if resource.number == NONE else state.of_a_broker

    def change_error(self, resource: Resource, changes: Sequence[Change]) -> Error:
        """What is wrong with the operations themselves; the first one that is wrong says it."""
        if len({change.name for change in changes}) < len(changes):
            return Error.INVALID_REQUEST
        if self.is_one_broker(resource) and any(change.name == MIN_INSYNC for change in changes):
            return Error.INVALID_CONFIG
        for change in changes:
            if change.operation is Operation.DELETE:
                continue
            if change.value is None or change.operation is Operation.NO_SUCH:
                return Error.INVALID_REQUEST
            if change.operation is not Operation.SET and change.name != POLICY:
                return Error.INVALID_CONFIG
        return Error.NONE

    def settings_error(self, state: State, resource: Resource, settings: Settings) -> Error:
        """What is wrong with the settings that a resource would have; that it is not there is looked at last."""
        if any(len(value) > LONGEST for _, value in settings):
            return Error.INVALID_CONFIG
        if resource.kind is Kind.BROKER:
            if self.is_told_to_all(resource, settings):
                return Error.INVALID_CONFIG
            if self.is_one_broker(resource) and {MIN_INSYNC, UNCLEAN} & {name for name, _ in settings}:
                return Error.INVALID_CONFIG
        values = VALUES[resource.kind]
        if any(name not in values or not values[name](value) for name, value in settings):
            return Error.INVALID_REQUEST if resource.kind is Kind.BROKER else Error.INVALID_CONFIG
        if resource.kind is Kind.TOPIC and state.topic(resource.number) is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if self.is_one_broker(resource) and not state.is_known(resource.number):
            return Error.BROKER_ID_NOT_REGISTERED
        return Error.NONE

    def is_told_to_all(self, resource: Resource, settings: Settings) -> bool:
        """All brokers have a number of their own: nobody can take it away (KIP-966)."""
        return resource.number == NONE and MIN_INSYNC not in dict(settings)

    def is_one_broker(self, resource: Resource) -> bool:
        return resource.kind is Kind.BROKER and resource.number != NONE

    def with_settings(self, state: State, resource: Resource, settings: Settings) -> State:
        """The settings, and what follows from them for partitions, in one decision."""
        old = state
        if resource.kind is Kind.TOPIC:
            topic = state.topics[resource.number]
            assert topic is not None
            state = state.with_topic(resource.number, evolve(topic, settings=settings))
        elif resource.kind is Kind.GROUP:
            state = evolve(state, of_a_group=settings)
        elif resource.number == NONE:
            state = evolve(state, of_all_brokers=settings)
        else:
            state = evolve(state, of_a_broker=settings)
        for name, before in enumerate(old.topics):
            if before is not None:
                state = self.with_consequences(old, state, name, before)
        return state

    def with_consequences(self, old: State, state: State, name: int, before: Topic) -> State:
        """A new number raises each partition epoch; where uncleanly led is better than not at all, somebody leads."""
        topic = state.topics[name]
        assert topic is not None
        renumbered = self.setting(old, before, MIN_INSYNC, "1") != self.setting(state, topic, MIN_INSYNC, "1")
        for index, partition in enumerate(topic.partitions):
            if renumbered:
                partition = self.renumbered(state, topic, partition)
                state = state.with_partition(name, index, partition)
            if partition.leader == NONE:
                state = state.with_partition(name, index, self.led(state, topic, partition, partition))
        return state

    def renumbered(self, state: State, topic: Topic, partition: Partition) -> Partition:
        """Who is eligible is decided anew, and a leader that goes by the old number changes no ISR."""
        elr = self.elr_after(state, topic, partition, partition.isr, partition.elr)
        return evolve(partition, elr=elr, partition_epoch=partition.partition_epoch + 1)

    # --- leaders ---------------------------------------------------------------------------------------------------

    def elr_after(
        self, state: State, topic: Topic, partition: Partition, isr: frozenset[int], elr: frozenset[int]
    ) -> frozenset[int]:
        """Replicas stay eligible as long as nothing can be committed without them."""
        return elr - isr if len(isr) < self.needed(state, topic, partition) else frozenset()

    def led(
        self, state: State, topic: Topic, old: Partition, new: Partition, *, is_unclean_allowed: bool = False
    ) -> Partition:
        """The partition with a leader, if there can be one, and with the epochs of a change if it is one."""
        if new.leader not in new.isr or not state.is_live[new.leader]:
            is_unclean_allowed = is_unclean_allowed or self.elects_uncleanly(state, topic)
            leader, unclean = self.elect(state, new, is_unclean_allowed=is_unclean_allowed)
            if leader != NONE and leader not in new.isr:
                isr = frozenset({leader})
                elr = frozenset[int]() if unclean else self.elr_after(state, topic, new, isr, new.elr)
                new = evolve(new, isr=isr, elr=elr)
            if leader != new.leader:
                new = evolve(new, leader=leader, last_known_leader=new.leader if leader == NONE else leader)
        if new == old:
            return old
        leader_epoch = old.leader_epoch + self.begins_epoch(old, new)
        return evolve(new, leader_epoch=leader_epoch, partition_epoch=old.partition_epoch + 1)

    def begins_epoch(self, old: Partition, new: Partition) -> bool:
        """With another leader, and when a replica leaves the list: it may come back empty."""
        return new.leader != old.leader or not set(old.replicas).issubset(new.replicas)

    def elect(self, state: State, partition: Partition, *, is_unclean_allowed: bool) -> tuple[int, bool]:
        """(leader, whether uncleanly elected): by replica order in the ISR, then the ELR, then the rest."""
        live = [broker for broker in partition.replicas if state.is_live[broker]]
        for candidates in (partition.isr, partition.elr):
            for broker in live:
                if broker in candidates:
                    return broker, False
        if live and is_unclean_allowed:
            return live[0], True
        if not partition.isr and not partition.elr and self.best_left(partition) in live:
            return self.best_left(partition), True
        return NONE, False

    def best_left(self, partition: Partition) -> int:
        """Where ISR and ELR are empty, the replica of which no better one can turn up."""
        return partition.last_known_leader if len(partition.replicas) > 1 else partition.replicas[0]

    def may_prefer(self, partition: Partition) -> bool:
        """The preferred leader leads if it is in sync: so it has every committed record, and is live."""
        return partition.replicas[0] in partition.isr

    def may_elect_uncleanly(self, partition: Partition) -> bool:
        """A leader is not replaced by one that may have less."""
        return partition.leader == NONE

    def without(
        self, state: State, topic: Topic, partition: Partition, isr: frozenset[int], elr: frozenset[int]
    ) -> Partition:
        """The partition with a smaller ISR, and those of `elr` who are eligible while that is too small."""
        return evolve(partition, isr=isr, elr=self.elr_after(state, topic, partition, isr, elr))

    def fenced(self, state: State, topic: Topic, partition: Partition, broker: int) -> Partition:
        """A fenced broker leaves the ISR with all that it has: it is or stays eligible."""
        elr = partition.elr | (partition.isr & {broker})
        return self.without(state, topic, partition, partition.isr - {broker}, elr)

    def restarted(self, state: State, topic: Topic, partition: Partition, broker: int) -> Partition:
        """A new process may have lost what its log ended with (KIP-966)."""
        return self.without(state, topic, partition, partition.isr - {broker}, partition.elr - {broker})

    def removed(self, state: State, topic: Topic, partition: Partition, broker: int) -> Partition:
        """A broker that is gone for good is not eligible."""
        return self.without(state, topic, partition, partition.isr - {broker}, partition.elr - {broker})

    # --- topics and replicas -----------------------------------------------------------------------------------------

    def assignment_error(self, state: State, brokers: Sequence[int]) -> Error:
        """A replica list names brokers that are registered, each once."""
        if not brokers or len(set(brokers)) < len(brokers) or not all(map(state.is_known, brokers)):
            return Error.INVALID_REPLICA_ASSIGNMENT
        return Error.NONE

    def assignments_error(self, state: State, assignments: Sequence[Sequence[int]], factor: int) -> Error:
        """All partitions of a topic have as many replicas, and one of each is live."""
        for brokers in assignments:
            if error := self.assignment_error(state, brokers):
                return error
            if len(brokers) != factor or not any(state.is_live[broker] for broker in brokers):
                return Error.INVALID_REPLICA_ASSIGNMENT
        return Error.NONE

    def new_partition(self, state: State, replicas: tuple[int, ...]) -> Partition:
        """The live replicas are in sync, the first of them leads."""
        live = [broker for broker in replicas if state.is_live[broker]]
        return Partition(replicas, live[0], frozenset(live))

    def next_id(self, state: State) -> int:
        """The id of a new topic, which no topic has had, of that name or another (KIP-516)."""
        return state.created + 1

    def may_delete(self, topic: Topic | None) -> bool:
        """Whatever happens to a topic, it can be deleted."""
        return topic is not None

    def growth_error(self, topic: Topic, count: int) -> Error:
        """A topic grows only, and not while its replicas move."""
        if any(partition.is_reassigned for partition in topic.partitions):
            return Error.REASSIGNMENT_IN_PROGRESS
        return Error.INVALID_PARTITIONS if count <= len(topic.partitions) else Error.NONE

    def grown(self, topic: Topic, more: tuple[Partition, ...]) -> Topic:
        """New partitions come after those that there are."""
        return evolve(topic, partitions=topic.partitions + more)

    def reassigned(self, partition: Partition, target: tuple[int, ...]) -> Partition:
        """The list grown to the target; a replica that was being added still is, if it is in the target."""
        removing = tuple(sorted(set(partition.replicas).difference(target)))
        adding = tuple(b for b in sorted(target) if b not in partition.replicas or b in partition.adding)
        return evolve(partition, replicas=(*target, *removing), adding=adding, removing=removing)

    def completed(self, partition: Partition) -> Partition:
        """A reassignment ends when all of its target are in sync."""
        if not partition.is_reassigned or not partition.isr.issuperset(partition.target):
            return partition
        return self.only_on(partition, partition.target)

    def only_on(self, partition: Partition, replicas: tuple[int, ...]) -> Partition:
        last_known = partition.last_known_leader
        return evolve(
            partition,
            replicas=replicas,
            isr=partition.isr.intersection(replicas),
            elr=partition.elr.intersection(replicas),
            last_known_leader=last_known if last_known in replicas else NONE,
            adding=(),
            removing=(),
        )

    def may_cancel(self, state: State, topic: Topic, partition: Partition) -> bool:
        """Somebody that has every committed record remains, or the topic does not mind."""
        left = (partition.isr | partition.elr).difference(partition.adding)
        return bool(left) or self.elects_uncleanly(state, topic)

    # --- producer ids ------------------------------------------------------------------------------------------------

    def block_error(self, state: State, broker: int, *, is_last_process: bool) -> Error:
        """Only the registered process of a broker gets a block, as long as there are any."""
        if not state.is_known(broker):
            return Error.BROKER_ID_NOT_REGISTERED
        if not is_last_process:
            return Error.STALE_BROKER_EPOCH
        return Error.NONE if state.blocks else Error.UNKNOWN_SERVER_ERROR
