"""The cores beside the machine of disks that damage logs: a damaged replica waits, and is repaired before it follows.

When a damaged replica may act is the broker's shell's part (`impl.server.broker.damaged_replicas`), which is the
harness here. What registrations, elections and fetches make of it is the cores'.
"""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.model_tests.harness.cores import abstraction
from tidegauge.model_tests.harness.cores.effects import told
from tidegauge.model_tests.harness.cores.extensions import shutdown
from tidegauge.model_tests.harness.cores.extensions.shutdown import NO_NOTE, ShutdownCores
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.replication import CORRECT, NOTHING, Broker, Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication import faults
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.damage import Damaged, DamageLog, Eligible, LoseEnd, RepairLog
from tidegauge.spec.replication.machine import Replication


class DamageCores(ShutdownCores):
    """Brokers, controller and messages, where a disk may damage a log."""

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.damaged: dict[int, int] = {}
        """Where the damage of each broker's log begins."""
        super().__init__(machine, roles, additions)

    def pull_metadata(self, number: int) -> None:
        super().pull_metadata(number)
        pulled = self.brokers[number].pulled
        assert pulled is not None
        word = with_part(pulled.word, Eligible(abstraction.ids(self.registration.elr)))
        self.brokers[number].pulled = attrs.evolve(pulled, word=word)

    def metadata_of(self, number: int) -> spec.PartitionMetadata:
        """What a broker is about to act on."""
        pulled = self.brokers[number].pulled
        if pulled is not None:
            return pulled.word
        return abstraction.metadata(self.registration, self.controller.controller_epoch)

    def apply_metadata(self, number: int) -> None:
        """A broker whose replica is damaged may have to wait; so long it has not caught up with the metadata."""
        if number not in self.damaged or self.may_act(number, self.metadata_of(number)):
            super().apply_metadata(number)
        else:
            self.brokers[number].pulled = self.brokers[number].seen = None

    def may_act(self, number: int, metadata: spec.PartitionMetadata) -> bool:
        """Whether a damaged replica can be what the metadata say: it leads alone, or waits out of the ISR."""
        if metadata.leader == number:
            return set(metadata.isr) <= {number}
        return metadata.leader == spec.NONE and number not in metadata.isr

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        return with_part(super()._look_at_replica(number, broker), Damaged(self.damaged.get(number, spec.NONE)))

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def damage_log(cores: DamageCores, action: DamageLog) -> None:
    """The next process finds it, and forgets the note of a clean stop."""
    cores.damaged[action.broker] = action.start
    cores.notes[action.broker] = NO_NOTE
    cores.brokers[action.broker].seen = None


def lose_end(cores: DamageCores, action: LoseEnd) -> None:
    """The next process finds a log that ends earlier, and forgets the note of a clean stop."""
    broker = cores.brokers[action.broker]
    broker.log.truncate_to(action.kept)
    if cores.damaged.get(action.broker, spec.NONE) >= action.kept:
        del cores.damaged[action.broker]
    cores.notes[action.broker] = NO_NOTE
    broker.seen = None


def repair_log(cores: DamageCores, action: RepairLog) -> None:
    cut(cores, action.broker, cores.damaged.pop(action.broker))


def cut(cores: DamageCores, number: int, start: int) -> None:
    """A replica's log ends where it was damaged."""
    replica, broker = cores.replica(number), cores.brokers[number]
    broker.log.truncate_to(start)
    replica.resign()
    replica.high_watermark = min(replica.high_watermark, broker.log.log_end_offset)
    broker.told = told(replica)


def crash(cores: DamageCores, action: faults.Crash) -> None:
    """Damage outlives a process, as far as the log has it still."""
    shutdown.crash(cores, action)
    if cores.damaged.get(action.broker, spec.NONE) >= action.kept:
        del cores.damaged[action.broker]


STEPS: Final = Steps[DamageCores, [], None](
    on(DamageLog, damage_log),
    on(LoseEnd, lose_end),
    on(RepairLog, repair_log),
    on(faults.Crash, crash),
    over=shutdown.STEPS,
)
