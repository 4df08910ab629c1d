"""Settings of a topic that change while it is written to: min.insync.replicas and unclean.leader.election.enable.

Theory of operation
-------------------
min.insync.replicas is read in two places (KIP-966). A leader commits nothing while its ISR is smaller; and because of
that the controller keeps replicas that leave a small ISR *eligible* to lead (ELR), as if they still had every committed
record. Both places have to mean the same number. They do not when it changes: the controller decides by the settings
from the moment at which they are written, a leader by those of the metadata that it has applied.

* The number is lowered. From now on the leader may commit without replicas that are eligible: the controller looks
  at them anew in the same decision, before any leader can have applied it.
* The number is raised. A leader that has not applied it commits by the old one. Were it to shrink its ISR meanwhile,
  the controller would keep as eligible a replica that the leader commits without. So the change raises the partition
  epoch, as any change of the partition does: a proposal of a leader that has not applied it is refused.

* Nobody has set it. Then it is the controller's own number, and the metadata tell it to every broker: a broker's file
  does not count. A leader that went by a smaller number of its own would commit without the eligible.

A partition that waits for a leader gets one as soon as its topic prefers an unclean one to none.

The extension adds the settings to the controller, and the number to metadata and replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.parts import Part, Parts, updated, with_part
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.properties import acknowledged_by_enough, leaders, loss_is_accepted
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import NONE, Controller, ControllerPart, PartitionMetadata, Replica, State


@attrs.frozen
class TopicSettings(ControllerPart):
    """Of the controller: the settings as they are written."""

    min_insync: int = 0
    elects_uncleanly: bool = False


@attrs.frozen
class KnownSettings(Part):
    """Of metadata, and of the replica of a broker that has applied them."""

    min_insync: int = 0


@attrs.frozen
class ChangeSettings(ReplicationAction):
    """An operator sets min.insync.replicas, unclean.leader.election.enable, or both."""

    bounded_as: ClassVar[str] = "ChangeSettings"

    min_insync: int
    elects_uncleanly: bool

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        settings = Settings.of(machine)
        values = settings.min_insync_values or range(1, machine.brokers + 1)
        return [cls(value, unclean) for value in values for unclean in settings.unclean_values]

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more changes of settings in this model"
        now = TopicSettings.of(state.controller)
        return "nothing changes" if now == TopicSettings(self.min_insync, self.elects_uncleanly) else ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        old = TopicSettings.of(state.controller)
        controller = with_part(state.controller, TopicSettings(self.min_insync, self.elects_uncleanly))
        if self.min_insync != old.min_insync:
            controller = Settings.of(machine).with_min_insync(machine, controller)
        state = evolve(state.spend(self.bounded_as), controller=controller)
        if controller.leader == NONE and self.elects_uncleanly and not old.elects_uncleanly:
            elected, unclean = machine.with_leader(controller)
            state = committed(state, elected, unclean=unclean)
        return state


@attrs.frozen
class Settings(ReplicationExtension):
    """Settings that change; they begin with the values of the machine's constants."""

    action_types: ClassVar[tuple[type[Action], ...]] = (ChangeSettings,)
    part_types: ClassVar[tuple[type[Part], ...]] = (TopicSettings, KnownSettings)
    leader_stays: ClassVar[frozenset[str]] = frozenset({"ChangeSettings"})

    min_insync_values: tuple[int, ...] = ()
    """Those that may be set; () for all that fit."""
    unclean_values: tuple[bool, ...] = (False, True)

    def initial(self, machine: ReplicationRules, state: State) -> State:
        settings = TopicSettings(machine.min_insync_replicas, machine.unclean_leader_election)
        known = KnownSettings(machine.min_insync_replicas)
        return evolve(
            state,
            controller=with_part(state.controller, settings),
            replicas=tuple(with_part(replica, known) for replica in state.replicas),
        )

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        """As in the base, by the settings of the moment: the topic's, and those that the leaders know."""

        def known(state: State) -> int:
            return min(
                min(KnownSettings.of(leader).min_insync, machine.replica_count(leader)) for _, leader in leaders(state)
            )

        return {
            "LossIsAccepted": loss_is_accepted(topic_accepts_loss(machine)),
            "AcknowledgedByEnough": acknowledged_by_enough(machine, known),
        }

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        if not machine.bounds["ChangeSettings"] or self.min_insync_values == (machine.min_insync_replicas,):
            return {}
        return {
            "a leader commits by a number that is not true any more": lambda s: any(
                r.leader == b
                and r.high_watermark
                and KnownSettings.of(r).min_insync != TopicSettings.of(s.controller).min_insync
                for b, r in enumerate(s.replicas)
            )
        }

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return {"a live broker knows min.insync.replicas": settings_are_known}

    def required_insync(
        self, machine: ReplicationRules, inner: Callable[[Replica | Controller], int], known: Replica | Controller
    ) -> int:
        """Never more than there are replicas."""
        settings = TopicSettings.of(known) if isinstance(known, Controller) else KnownSettings.of(known)
        return min(settings.min_insync, machine.replica_count(known))

    def elects_uncleanly(
        self, machine: ReplicationRules, inner: Callable[[Controller], bool], controller: Controller
    ) -> bool:
        return TopicSettings.of(controller).elects_uncleanly

    def with_min_insync(self, machine: ReplicationRules, controller: Controller) -> Controller:
        """Eligible leaders are looked at anew, and no leader that has not applied it changes the ISR."""
        elr = machine.elr_after(controller, controller.isr, controller.elr)
        return evolve(controller, elr=elr, partition_epoch=controller.partition_epoch + 1)

    def metadata(
        self, machine: ReplicationRules, inner: Callable[[Controller], PartitionMetadata], controller: Controller
    ) -> PartitionMetadata:
        return with_part(inner(controller), KnownSettings(self.min_insync_told(machine, TopicSettings.of(controller))))

    def min_insync_told(self, machine: ReplicationRules, settings: TopicSettings) -> int:
        """The number of the metadata, which the controller decides by; no broker has one of its own."""
        return settings.min_insync

    def parts_with_metadata(
        self,
        machine: ReplicationRules,
        inner: Callable[[Parts, PartitionMetadata], Parts],
        parts: Parts,
        metadata: PartitionMetadata,
    ) -> Parts:
        found, known = inner(parts, metadata), KnownSettings.of(metadata)
        return found if known in found else updated(found, known)


def settings_are_known(state: State) -> bool:
    """What the operator has set last is in force everywhere."""
    wanted = TopicSettings.of(state.controller).min_insync
    return all(KnownSettings.of(replica).min_insync == wanted for replica in state.replicas if replica.running)


def topic_accepts_loss(machine: ReplicationRules) -> Callable[[State], bool]:
    """Whether the topic prefers an unclean leader to none: by its settings where they may change, else for good."""
    if any(issubclass(kind, Settings) for kind in machine.kinds):
        return lambda state: TopicSettings.of(state.controller).elects_uncleanly
    return lambda state: machine.unclean_leader_election
