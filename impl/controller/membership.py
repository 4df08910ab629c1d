"""Brokers: registration, sessions, fencing.

A broker registers once for each of its processes and gets a *broker epoch*, larger than any before. All that it sends
later carries that epoch; what a former process of the same id sends is refused. A broker is *fenced*, so that it
neither leads nor joins an ISR, until a heartbeat shows that it has the metadata up to its own registration.

A broker's session has a deadline, which each heartbeat moves. When the session expires the controller fences the
broker: it leaves every ISR, and the partitions that it led get another leader. Its id stays in the replica lists, and
the next heartbeat of the same process unfences it again. A *new* process may have lost the tail of its log, so its
registration takes it out of every ISR and ELR until it has caught up (KIP-966). The exception is a process that starts
after a clean stop: it names the broker epoch of the process that stopped, and if that is the last one registered it has
lost nothing and stays eligible.

A broker that is to stop says so with its heartbeats (*controlled shutdown*, KIP-841). Its leaderships move, and it
leaves the ISRs, wherever another member stays; then it is fenced and told to stop. Where it is the last of an ISR it
leads on until another replica has joined, or until it stops waiting.

Two live processes with one id are the operator's mistake: while the session of the first lasts, the second is refused,
unless it shows that the first has died (`RegistrationRules.has_died`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.decision import Decision, Proposal, unwritten
from tidegauge.impl.controller.directories import Directories
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.controller.replica_lists import ReplicaListRules
from tidegauge.impl.metadata.image import BrokerRegistration, ClusterImage
from tidegauge.impl.metadata.records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH
from tidegauge.impl.partition.registration import PartitionRegistration

PartitionChange = Callable[[ClusterImage, str, PartitionRegistration], PartitionRegistration]
"""What a broker's new standing makes of a partition of a topic."""


class Contact(Enum):
    """What the controller has of a process's connections since it started."""

    NONE = "none"
    OPEN = "open"
    CLOSED = "closed"


class HeartbeatResponse(NamedTuple):
    """What a broker learns from its heartbeat."""

    error: ErrorCode
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


GOES_ON: Final = HeartbeatResponse(ErrorCode.none, is_caught_up=True, is_fenced=False)
"""To nearly every heartbeat: nothing changes but the end of the broker's session."""


class RegistrationRules:
    """What a broker's registration, fencing and leaving mean for one of its partitions."""

    def __init__(self, elections: ElectionRules, replica_lists: ReplicaListRules) -> None:
        self.elections = elections
        self.replica_lists = replica_lists

    def is_last_process(self, image: ClusterImage, broker_id: int, broker_epoch: int) -> bool:
        """Whether the process of this epoch is the broker's last registered one."""
        known = image.brokers.get(broker_id)
        return known is not None and known.broker_epoch == broker_epoch

    def is_duplicate(self, image: ClusterImage, process: RegisterBrokerRecord, contact: Contact) -> bool:
        """Whether a process would register under the id of another one that may live: its session has not expired.

        `contact` is that with the process that is registered. A broker that is about to stop, or whose process is not
        known, stands in nobody's way.
        """
        known = image.brokers.get(process.broker_id)
        if known is None or not process.incarnation_id or known.incarnation_id in ("", process.incarnation_id):
            return False
        return image.is_active(process.broker_id) and not self.has_died(known, process, contact)

    def has_died(self, known: BrokerRegistration, process: RegisterBrokerRecord, contact: Contact) -> bool:
        """Whether the registered process is proved to have died, by another one that asks: two of three say so.

        Its connections have closed; the new one has locked a directory that it had locked; the new one listens where it
        listened. Each alone may be wrong: a network closes connections, a directory may be a copy, two machines may
        be called alike.
        """
        if contact is Contact.OPEN:
            return False
        has_its_directory = not set(known.directories).isdisjoint(process.directories)
        has_its_address = not _addresses(known).isdisjoint(_addresses(process))
        return (contact is Contact.CLOSED) + has_its_directory + has_its_address >= 2

    def registered_cleanly(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        """After a clean stop a member of the ISR leaves it, since it has to catch up, and stays eligible."""
        return self.elections.without(image, topic, registration, broker_id, clean=True)

    def registered_uncleanly(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        """A process that may have lost its log's tail is neither in sync nor eligible before it has caught up."""
        return self.elections.without(image, topic, registration, broker_id, clean=False)

    def fenced(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        """A fenced broker leaves the ISR with all that it has."""
        return self.elections.without(image, topic, registration, broker_id, clean=True)

    def unregistered(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        """A broker that is gone for good is not eligible either."""
        return self.elections.without(image, topic, registration, broker_id, clean=False)

    def must_keep_running(self, image: ClusterImage, broker_id: int) -> bool:
        """Whether the broker leads a partition that another live replica, which stays, can still take over."""
        return any(
            registration.leader == broker_id and any(map(image.is_active, registration.replicas))
            for _, _, registration in image.partitions()
        )


class Membership:
    """Decides about brokers: who is registered, and who is fenced."""

    def __init__(
        self, image: ClusterImage, rules: RegistrationRules, directories: Directories, config: ControllerConfig
    ) -> None:
        self._image = image
        self._rules = rules
        self._directories = directories
        self._config = config

    def register(
        self,
        broker_id: int,
        *,
        host: str,
        port: int,
        rack: str | None = None,
        listeners: tuple[tuple[str, str, int, int], ...] = (),
        directories: tuple[str, ...] = (),
        stopped_cleanly_in: int = UNKNOWN_BROKER_EPOCH,
        incarnation_id: str = "",
        contact: Contact = Contact.NONE,
        earlier_is_gone: bool = False,
    ) -> Proposal[int]:
        """A new process of `broker_id` joins; the response is its broker epoch. Its first heartbeat unfences it.

        -1: another process with this id may live, and nothing is written. `contact` is that with the earlier process;
        `earlier_is_gone` says that it does not live. `stopped_cleanly_in` is the broker epoch of the process before
        it, if that one stopped with nothing lost.
        """
        broker_epoch = self._image.offset
        process = RegisterBrokerRecord(
            broker_id,
            broker_epoch,
            host,
            port,
            rack,
            listeners=listeners,
            directories=directories,
            incarnation_id=incarnation_id,
        )
        if not earlier_is_gone and self._rules.is_duplicate(self._image, process, contact):
            return Decision(self._image).propose(UNKNOWN_BROKER_EPOCH)
        clean = self._rules.is_last_process(self._image, broker_id, stopped_cleanly_in)
        rule = self._rules.registered_cleanly if clean else self._rules.registered_uncleanly
        decision = Decision(self._image)
        self._change_broker(
            decision,
            process,
            lambda image, topic, registration: rule(image, topic, registration, broker_id),
        )
        self._directories.update_replicas(decision, broker_id)
        return decision.propose(broker_epoch)

    def renewal(
        self, broker_id: int, broker_epoch: int, metadata_offset: int, now_ms: int
    ) -> Proposal[HeartbeatResponse] | None:
        """What the heartbeat of a broker means that asks for nothing, if it only renews its session; else None.

        The broker is unfenced, and has applied the metadata log beyond its registration.
        """
        image = self._image
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.broker_epoch != broker_epoch or metadata_offset <= broker_epoch:
            return None
        return unwritten(image, GOES_ON, {broker_id: now_ms + self._config.broker_session_timeout_ms})

    def heartbeat(
        self,
        broker_id: int,
        broker_epoch: int,
        metadata_offset: int,
        now_ms: int,
        *,
        want_fence: bool = False,
        want_shut_down: bool = False,
    ) -> Proposal[HeartbeatResponse]:
        """A broker is alive, and has applied the metadata log up to `metadata_offset` (the number of records).

        With `want_shut_down` it asks for a controlled shutdown; with `want_fence` it does not wait for one.
        BROKER_ID_NOT_REGISTERED or STALE_BROKER_EPOCH tell it that it has to register again.
        """
        asks = want_shut_down or want_fence
        if not asks and (renewal := self.renewal(broker_id, broker_epoch, metadata_offset, now_ms)) is not None:
            return renewal
        image = self._image
        broker = image.brokers.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            return unwritten(image, HeartbeatResponse(broker_error(image, broker_id, broker_epoch)))
        caught_up = metadata_offset > broker_epoch
        deadline = now_ms + self._config.broker_session_timeout_ms
        decision = Decision(image)
        if want_shut_down:
            self._begin_shutdown(decision, broker_id)
            if want_fence or not self._rules.must_keep_running(decision.image, broker_id):
                self._fence(decision, broker_id)
        elif want_fence:
            self._fence(decision, broker_id)
        elif caught_up:
            self._unfence(decision, broker_id)
        fenced = decision.image.brokers[broker_id].fenced
        sessions = {} if fenced else {broker_id: deadline}
        response = HeartbeatResponse(ErrorCode.none, caught_up, fenced, want_shut_down and fenced)
        return decision.propose(response, sessions)

    def begin_shutdown(self, broker_id: int) -> Proposal[bool]:
        """A broker is about to stop: others take over what they can. False when that is known, or it is fenced."""
        decision = Decision(self._image)
        return decision.propose(self._begin_shutdown(decision, broker_id))

    def fence(self, broker_id: int) -> Proposal[bool]:
        """A broker's session has expired, or it may stop: it is fenced. False when it is fenced or unknown."""
        decision = Decision(self._image)
        return decision.propose(self._fence(decision, broker_id))

    def unregister(self, broker_id: int) -> Proposal[ErrorCode]:
        """Remove a broker that is gone for good (KIP-500); its id stays in the replica lists.

        Errors: BROKER_ID_NOT_REGISTERED.
        """
        decision = Decision(self._image)
        broker = self._image.brokers.get(broker_id)
        if broker is None:
            return decision.propose(ErrorCode.broker_id_not_registered)
        self._change_broker(
            decision,
            UnregisterBrokerRecord(broker_id, broker.broker_epoch),
            lambda image, topic, registration: self._rules.unregistered(image, topic, registration, broker_id),
        )
        return decision.propose(ErrorCode.none)

    def _begin_shutdown(self, decision: Decision, broker_id: int) -> bool:
        if not decision.image.is_active(broker_id):
            return False
        broker = decision.image.brokers[broker_id]
        self._change_broker(
            decision,
            BrokerRegistrationChangeRecord(broker_id, broker.broker_epoch, in_controlled_shutdown=True),
            self._rules.replica_lists.without_stopping,
        )
        return True

    def _fence(self, decision: Decision, broker_id: int) -> bool:
        broker = decision.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return False
        self._change_broker(
            decision,
            BrokerRegistrationChangeRecord(broker_id, broker.broker_epoch, fenced=True),
            lambda image, topic, registration: self._rules.fenced(image, topic, registration, broker_id),
        )
        return True

    def _unfence(self, decision: Decision, broker_id: int) -> None:
        broker = decision.image.brokers[broker_id]
        if not broker.fenced or broker.in_controlled_shutdown:
            return
        self._change_broker(
            decision,
            BrokerRegistrationChangeRecord(broker_id, broker.broker_epoch, fenced=False),
            lambda image, topic, registration: registration,
        )

    def _change_broker(
        self,
        decision: Decision,
        record: RegisterBrokerRecord | BrokerRegistrationChangeRecord | UnregisterBrokerRecord,
        change: PartitionChange,
    ) -> None:
        """Write the broker's new standing, and what it means for each of its partitions."""
        decision.write(record)
        for topic, partition, old in list(decision.image.partitions()):
            if record.broker_id in old.replicas:
                new = change(decision.image, topic, old)
                led = self._rules.elections.with_leader(decision.image, topic, new)
                decision.change_partition(topic, partition, led)


def broker_error(image: ClusterImage, broker_id: int, broker_epoch: int) -> ErrorCode:
    """Whether a request comes from the broker's registered process: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.broker_id_not_registered
    return ErrorCode.none if broker.broker_epoch == broker_epoch else ErrorCode.stale_broker_epoch


def _addresses(process: BrokerRegistration | RegisterBrokerRecord) -> set[tuple[str, int]]:
    """Where a process listens, as it has said."""
    return {(host, port) for _, host, port, _ in process.listeners} or {(process.host, process.port)}
