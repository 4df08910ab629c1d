"""Settings of a topic that change while it is written to: min.insync.replicas and unclean.leader.election.enable.

Theory of operation
-------------------
The controller decides by a topic's settings from the moment at which they are written; a leader commits by the
min.insync.replicas that it has last heard of. Why a change of that number looks at the eligible leaders anew and raises
the partition epoch is told in `min_insync`, on a machine of its own that has little else; here the same rules are part
of replication, for the settings to change beside crashes, elections and ISR changes, and for traces of clusters.

A partition that waits for a leader gets one as soon as its topic prefers an unclean one to none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Invariant
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import NONE, Controller, Perturbation, Replica, State


@attrs.frozen
class ChangeSettings(ReplicationAction):
    """Somebody sets min.insync.replicas, unclean.leader.election.enable, or both."""

    min_insync: int
    elects_uncleanly: bool

    @classmethod
    def candidates(cls, machine: Replication, state: State) -> Iterable[ChangeSettings]:
        assert isinstance(machine, Settings)
        values = machine.min_insync_values or range(1, machine.brokers + 1)
        return [cls(value, unclean) for value in values for unclean in machine.unclean_values]

    def guard(self, machine: Replication, state: State) -> str:
        if not machine.may_perturb(state, Perturbation.SETTING_CHANGE):
            return "no more changes of settings in this model"
        now = state.controller.min_insync, state.controller.elects_uncleanly
        return "nothing changes" if now == (self.min_insync, self.elects_uncleanly) else ""

    def effect(self, machine: Replication, state: State) -> State:
        assert isinstance(machine, Settings)
        old = state.controller
        controller = attrs.evolve(old, min_insync=self.min_insync, elects_uncleanly=self.elects_uncleanly)
        if self.min_insync != old.min_insync:
            controller = machine.with_min_insync(controller)
        state = attrs.evolve(state.spend(Perturbation.SETTING_CHANGE), controller=controller)
        if controller.leader == NONE and self.elects_uncleanly and not old.elects_uncleanly:
            elected, unclean = machine.with_leader(controller)
            state = committed(state, elected, unclean=unclean)
        return state


@attrs.frozen(slots=False)  # so that it can be composed with others
class Settings(Replication):
    """The replication machine with settings that change; it begins with its constants' values."""

    action_types: ClassVar[tuple[type[ReplicationAction], ...]] = (*Replication.action_types, ChangeSettings)

    min_insync_values: tuple[int, ...] = ()
    """Those that may be set; () for all that fit."""
    unclean_values: tuple[bool, ...] = (False, True)

    def initial(self) -> Iterable[State]:
        for state in super().initial():
            controller = attrs.evolve(
                state.controller,
                min_insync=self.min_insync_replicas,
                elects_uncleanly=self.unclean_leader_election,
            )
            replicas = tuple(attrs.evolve(r, min_insync=self.min_insync_replicas) for r in state.replicas)
            yield attrs.evolve(state, controller=controller, replicas=replicas)

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        wanted: dict[str, Invariant[State]] = dict(super().sometimes)
        if self.bounds.setting_changes and self.min_insync_values != (self.min_insync_replicas,):
            wanted["a leader commits by a number that is not true any more"] = lambda s: any(
                r.leader == b and r.high_watermark and r.min_insync != s.controller.min_insync
                for b, r in enumerate(s.replicas)
            )
        return wanted

    def required_insync(self, known: Replica | Controller) -> int:
        """Never more than there are replicas."""
        replicas = len(known.replicas) or self.brokers
        return min(known.min_insync, replicas)

    def elects_uncleanly(self, controller: Controller) -> bool:
        return controller.elects_uncleanly

    def with_min_insync(self, controller: Controller) -> Controller:
        """Eligible leaders are looked at anew, and no leader that has not heard of it changes the ISR."""
        elr = self.elr_after(controller, controller.isr, controller.elr)
        return attrs.evolve(controller, elr=elr, partition_epoch=controller.partition_epoch + 1)


# --- as it should not be ---------------------------------------------------------------------------------------------


@attrs.frozen
class RaisesNoEpoch(Settings):
    """A leader that has not heard of a larger number goes on changing the ISR."""

    def with_min_insync(self, controller: Controller) -> Controller:
        changed = super().with_min_insync(controller)
        return attrs.evolve(changed, partition_epoch=controller.partition_epoch)


@attrs.frozen
class KeepsTheEligible(Settings):
    """Who was eligible stays so when fewer must be in sync."""

    def with_min_insync(self, controller: Controller) -> Controller:
        return attrs.evolve(super().with_min_insync(controller), elr=controller.elr)
