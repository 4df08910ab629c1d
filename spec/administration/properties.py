"""What holds of a cluster's metadata, whatever operators do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidegauge.spec.administration.altering import AlterSettings
from tidegauge.spec.administration.brokers import AllocateBlock, Register, Restart, Unregister
from tidegauge.spec.administration.replicas import CancelReassignment, ElectUncleanly, JoinIsr
from tidegauge.spec.administration.rules import AdministrationRules
from tidegauge.spec.administration.settings import MIN_INSYNC, UNCLEAN, VALUES, Kind
from tidegauge.spec.administration.state import NONE, Partition, Settings, State, Topic
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.meaning import says


def topics(state: State) -> Iterator[Topic]:
    return (topic for topic in state.topics if topic is not None)


def partitions(state: State) -> Iterator[Partition]:
    return (partition for topic in topics(state) for partition in topic.partitions)


def set_to(state: State, topic: Topic, name: str) -> str:
    """The value for a topic, of its own or of all brokers; "" if there is none."""
    return {**dict(state.of_all_brokers), **dict(topic.settings)}.get(name, "")


def accepts_loss(state: State, topic: Topic) -> bool:
    return set_to(state, topic, UNCLEAN) == "true"


def invariants() -> Mapping[str, Invariant[State]]:
    return {
        "LeaderIsInSync": says(
            "Who leads is in sync.",
            lambda state: all(one.leader == NONE or one.leader in one.isr for one in partitions(state)),
        ),
        "WhoMayLeadsAtOnce": says(
            "A partition is without a leader only while nobody who may lead it is live.",
            lambda state: all(
                one.leader != NONE or not any(map(state.is_live.__getitem__, may_take_over(state, topic, one)))
                for topic in topics(state)
                for one in topic.partitions
            ),
        ),
        "IsrIsLive": says(
            "Who is in sync is live (KIP-841).",
            lambda state: all(state.is_live[broker] for one in partitions(state) for broker in one.isr),
        ),
        "RemovedIsNotEligible": says(
            "A broker that is no more registered is not eligible to lead.",
            lambda state: all(state.is_registered[broker] for one in partitions(state) for broker in one.elr),
        ),
        "EligibleBelowMinIsr": says(
            "There are eligible leaders outside the ISR only while it is too small to commit (KIP-966).",
            lambda state: all(
                not one.elr or (len(one.isr) < int(set_to(state, topic, MIN_INSYNC) or 1) and not one.elr & one.isr)
                for topic in topics(state)
                for one in topic.partitions
            ),
        ),
        "ReplicasAreLegal": says(
            "Each replica is listed once, and who is in sync, eligible or moving is a replica.",
            lambda state: all(map(is_legal, partitions(state))),
        ),
        "AllBrokersHaveMinIsr": says(
            "min.insync.replicas is set for all brokers (KIP-966).",
            lambda state: MIN_INSYNC in dict(state.of_all_brokers),
        ),
        "SettingsAreValid": are_settings_valid,
    }


def may_take_over(state: State, topic: Topic, partition: Partition) -> Iterable[int]:
    """The replicas of which one that is live leads, if nobody does."""
    if accepts_loss(state, topic):
        return partition.replicas
    left = {partition.last_known_leader, *(partition.replicas if len(partition.replicas) == 1 else ())}
    return partition.isr | partition.elr or left.intersection(partition.replicas)


def are_settings_valid(state: State) -> bool:
    """Each is one of its kind of resource; no broker has one for itself by which the controller decides."""
    of_kinds = [
        *((Kind.TOPIC, topic.settings) for topic in topics(state)),
        (Kind.BROKER, (*state.of_all_brokers, *state.of_a_broker)),
        (Kind.GROUP, state.of_a_group),
    ]
    valid = all(
        name in VALUES[kind] and VALUES[kind][name](value) for kind, settings in of_kinds for name, value in settings
    )
    return valid and {MIN_INSYNC, UNCLEAN}.isdisjoint(dict(state.of_a_broker))


def is_legal(partition: Partition) -> bool:
    """Each replica once, and nobody counts who is none."""
    listed = set(partition.replicas)
    return (
        len(listed) == len(partition.replicas)
        and listed.issuperset(partition.isr | partition.elr)
        and listed.issuperset((*partition.adding, *partition.removing))
        and bool(partition.target)
    )


def both(before: State, after: State) -> Iterator[tuple[Topic, Topic]]:
    """Topics that are there before and after."""
    for old, new in zip(before.topics, after.topics, strict=True):
        if old is not None and new is not None and old.number == new.number:
            yield old, new


def changed(before: State, after: State) -> Iterator[tuple[Topic, Topic]]:
    """Those of them that a step may have changed."""
    for old, new in zip(before.topics, after.topics, strict=True):
        if old is not new and old is not None and new is not None and old.number == new.number:
            yield old, new


def changed_partitions(before: State, after: State) -> Iterator[tuple[Topic, Partition, Partition]]:
    """The partitions of these that a step may have changed, as they were and are, each with its topic."""
    for one, other in changed(before, after):
        for old, new in zip(one.partitions, other.partitions, strict=False):
            if old is not new:
                yield other, old, new


def begins_epoch(before: Partition, after: Partition) -> bool:
    """What a broker fetched counts for one leader, and as long as it is a replica."""
    return before.leader != after.leader or bool(set(before.replicas).difference(after.replicas))


def candidates(action: Action, partition: Partition) -> frozenset[int]:
    """Who had every committed record, and has not lost any by the action."""
    lost = {action.broker} if isinstance(action, Restart | Register | Unregister) else set()
    return (partition.isr | partition.elr).difference(lost)


def may_lead(action: Action, before: Partition, after: Partition) -> bool:
    """One of the candidates, or who has just caught up; where there is none, the one of which no better can turn up."""
    left = candidates(action, before)
    is_best = after.leader in (before.last_known_leader, before.leader) or len(after.replicas) == 1
    joins = isinstance(action, JoinIsr) and after.leader == action.broker
    return after.leader in left or joins if left else is_best


def listed(topic: Topic | None) -> set[tuple[int, int, int]]:
    """(topic, partition, broker) of its replica lists."""
    if topic is None:
        return set()
    return {
        (topic.number, index, broker)
        for index, partition in enumerate(topic.partitions)
        for broker in partition.replicas
    }


def new_replicas_are_known(before: State, action: Action, after: State) -> bool:
    """No replica list names a broker that nobody knows, unless it did so before."""
    names = zip(before.topics, after.topics, strict=True)
    return all(
        after.is_known(broker) for old, new in names if old is not new for _, _, broker in listed(new) - listed(old)
    )


def nothing_grows_on_its_way(before: State, action: Action, after: State) -> bool:
    """A topic of which a replica moves stays as it is; new partitions have as many replicas as the first one."""
    return all(
        not any(partition.is_reassigned for partition in old.partitions)
        and all(len(one.replicas) == len(old.partitions[0].replicas) for one in new.partitions[len(old.partitions) :])
        for old, new in changed(before, after)
        if len(old.partitions) < len(new.partitions)
    )


def all_who_moved_are_in_sync(before: State, action: Action, after: State) -> bool:
    """A reassignment ends when all that remain have every committed record, unless it is cancelled."""
    return isinstance(action, CancelReassignment) or all(
        new.isr.issuperset(new.replicas)
        for _, old, new in changed_partitions(before, after)
        if not new.is_reassigned and (old.adding or set(old.replicas) != set(new.replicas))
    )


def blocks_are_given_once(before: State, action: Action, after: State) -> bool:
    """One by one, each to the registered process of a broker."""
    if before.blocks == after.blocks:
        return True
    asked = isinstance(action, AllocateBlock) and action.is_last_process and before.is_known(action.broker)
    return asked and after.blocks == before.blocks - 1 >= 0


def others_stay(before: State, action: Action, after: State) -> bool:
    """Operations on settings leave every setting of another name as it was, wherever."""
    if not isinstance(action, AlterSettings):
        return True
    named = {change.name for change in action.changes}

    def others(settings: Settings) -> list[tuple[str, str]]:
        return sorted(pair for pair in settings if pair[0] not in named)

    pairs = [(old.settings, new.settings) for old, new in changed(before, after)]
    pairs.append((before.of_all_brokers, after.of_all_brokers))
    pairs += [(before.of_a_broker, after.of_a_broker), (before.of_a_group, after.of_a_group)]
    return all(others(old) == others(new) for old, new in pairs)


def step_invariants() -> Mapping[str, StepInvariant[State]]:
    def epochs_grow(before: State, action: Action, after: State) -> bool:
        """What changes gets a greater partition epoch; also a greater leader epoch, if the leader or a replica goes."""
        return all(
            new.partition_epoch > old.partition_epoch
            and (new.leader_epoch > old.leader_epoch) == begins_epoch(old, new)
            for _, old, new in changed_partitions(before, after)
            if old != new
        )

    def numbers_are_fenced(before: State, action: Action, after: State) -> bool:
        """Which leader's number is old shows in its partition epoch."""
        return all(
            new.partition_epoch > old.partition_epoch
            for one, other in (changed if before.of_all_brokers == after.of_all_brokers else both)(before, after)
            if set_to(before, one, MIN_INSYNC) != set_to(after, other, MIN_INSYNC)
            for old, new in zip(one.partitions, other.partitions, strict=False)
        )

    def names_are_no_ids(before: State, action: Action, after: State) -> bool:
        """A topic that is created has an id that no topic had, whatever its name (KIP-516)."""
        pairs = [(old, new) for old, new in zip(before.topics, after.topics, strict=True) if old is not new]
        fresh = [new for old, new in pairs if new is not None and (old is None or old.number != new.number)]
        return all(topic.number > before.created for topic in fresh)

    def candidates_remain(before: State, action: Action, after: State) -> bool:
        """Who has every committed record is forgotten only when it may have lost them, or the topic does not mind."""
        return all(
            not candidates(action, old) or new.isr | new.elr or accepts_loss(after, topic)
            for topic, old, new in changed_partitions(before, after)
        )

    def only_candidates_lead(before: State, action: Action, after: State) -> bool:
        """Who comes to lead has every committed record, unless loss is accepted, or nobody better can come."""
        return all(
            may_lead(action, old, new) or accepts_loss(after, topic)
            for topic, old, new in changed_partitions(before, after)
            if new.leader not in (NONE, old.leader) and not isinstance(action, ElectUncleanly)
        )

    return {
        "CandidatesRemain": candidates_remain,
        "OnlyCandidatesLead": only_candidates_lead,
        "NewReplicasAreKnown": new_replicas_are_known,
        "AllWhoMovedAreInSync": all_who_moved_are_in_sync,
        "NothingGrowsOnItsWay": nothing_grows_on_its_way,
        "EpochsGrow": epochs_grow,
        "OtherSettingsStay": others_stay,
        "NumbersAreFenced": numbers_are_fenced,
        "NamesAreNoIds": names_are_no_ids,
        "TopicsOnlyGrow": says(
            "No topic loses a partition.",
            lambda before, _, after: all(
                len(old.partitions) <= len(new.partitions) for old, new in changed(before, after)
            ),
        ),
        "BlocksAreGivenOnce": blocks_are_given_once,
    }


def converging() -> Mapping[str, Invariant[State]]:
    return {
        "who is live and follows a leader is in sync": lambda state: all(
            partition.leader == NONE or broker in partition.isr
            for partition in partitions(state)
            for broker in partition.replicas
            if state.is_live[broker]
        ),
        "a reassignment with a leader ends": lambda state: (
            not any(
                partition.is_reassigned
                and partition.leader != NONE
                and all(map(state.is_live.__getitem__, partition.target))
                for partition in partitions(state)
            )
        ),
    }


def goals(machine: AdministrationRules) -> Mapping[str, Invariant[State]]:
    """What the model's bounds allow must come about."""
    bounds = machine.bounds
    found: dict[str, Invariant[State]] = {}
    if bounds["DeleteTopic"] and bounds["CreateTopic"] > 1:
        found["a name is another topic's"] = lambda state: any(topic.number > 1 for topic in topics(state))
    if bounds["Reassign"]:
        found["a partition is being reassigned"] = lambda state: any(one.is_reassigned for one in partitions(state))
    if bounds["Fence"]:
        found["a replica is eligible without being in sync"] = lambda state: any(one.elr for one in partitions(state))
        found["a partition waits for a leader"] = lambda state: any(one.leader == NONE for one in partitions(state))
    if bounds["Unregister"]:
        found["a replica was removed"] = lambda state: any(
            not state.is_registered[broker] for one in partitions(state) for broker in one.replicas
        )
    return found
