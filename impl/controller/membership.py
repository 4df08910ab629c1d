"""Brokers: registration, sessions, fencing.

A broker registers once for each of its processes and gets a *broker epoch*, larger than any before. Whatever it sends
later carries that epoch; what an earlier process of the same id sends is refused. It is *fenced*, that is, neither
leads nor joins an ISR, until a heartbeat shows that it has the metadata up to its own registration.

A membership is a session with a deadline, which each heartbeat puts off. When it lapses the broker is fenced: it leaves
every ISR, and the partitions that it led get another leader. Its id stays in the replica lists, and the next heartbeat
of the same process unfences it again. A *new* process may have lost the tail of its log, so its registration takes it
out of every ISR and ELR until it has caught up (KIP-966). Unless it starts from a clean stop: it then names the broker
epoch of the process that stopped, and if that is the last one known it has lost nothing and stays eligible.

A broker that is to stop says so with its heartbeats (*controlled shutdown*, KIP-841). Its leaderships move, and it
leaves the ISRs, wherever another member stays; then it is fenced and told to stop. Where it is the last of an ISR it
leads on until another replica has joined, or until it will wait no longer.

Two living processes with one id are the operator's mistake; the later one wins, the epoch fences the earlier.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.directories import Directories
from tidegauge.impl.metadata.records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH
from tidegauge.impl.partition.registration import PartitionRegistration


@attrs.frozen
class HeartbeatAnswer:
    """What a broker learns from its heartbeat."""

    error: ErrorCode
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


class Membership(Directories):
    """The controller's part in who belongs to the cluster."""

    def register_broker(
        self,
        broker_id: int,
        *,
        host: str,
        port: int,
        rack: str | None = None,
        listeners: tuple[tuple[str, str, int, int], ...] = (),
        directories: tuple[str, ...] = (),
        stopped_cleanly_in: int = UNKNOWN_BROKER_EPOCH,
    ) -> int:
        """A new process of `broker_id` joins: its broker epoch. It must heartbeat to be unfenced.

        `stopped_cleanly_in` is the broker epoch of the process before it, if that one stopped with nothing lost.
        """
        broker_epoch = self.log.end_offset
        self.sessions.pop(broker_id, None)
        clean = self.is_last_process(broker_id, stopped_cleanly_in)
        self._change_broker(
            RegisterBrokerRecord(
                broker_id, broker_epoch, host, port, rack, listeners=listeners, directories=directories
            ),
            lambda topic, registration: (
                self.back_from_a_clean_stop(topic, registration, broker_id)
                if clean
                else self.on_unclean_registration(topic, registration, broker_id)
            ),
        )
        self._look_at_directories(broker_id)
        self._commit()
        return broker_epoch

    def back_from_a_clean_stop(
        self, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        """Out of the ISR, for it has to catch up; eligible to lead if it was, or was in sync."""
        return (
            self.without(topic, registration, broker_id, clean=True) if broker_id in registration.isr else registration
        )

    def is_last_process(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the broker's last registered process is this one."""
        known = self.image.brokers.get(broker_id)
        return known is not None and known.broker_epoch == broker_epoch

    def on_unclean_registration(
        self, topic: str, registration: PartitionRegistration, broker_id: int
    ) -> PartitionRegistration:
        """A new process may have lost its log's tail: neither in sync nor eligible before it has caught up."""
        return self.without(topic, registration, broker_id, clean=False)

    def heartbeat(
        self,
        broker_id: int,
        broker_epoch: int,
        metadata_offset: int,
        now_ms: int,
        *,
        want_fence: bool = False,
        want_shut_down: bool = False,
    ) -> HeartbeatAnswer:
        """A broker is alive, and has applied the metadata log up to `metadata_offset` (the number of records).

        With `want_shut_down` it asks to be relieved and told when it may stop, with `want_fence` it waits for nothing.
        BROKER_ID_NOT_REGISTERED or STALE_BROKER_EPOCH tell it that it has to register again.
        """
        error = self.broker_error(broker_id, broker_epoch)
        if error is not ErrorCode.none:
            return HeartbeatAnswer(error)
        caught_up = metadata_offset > broker_epoch
        if want_shut_down:
            self.begin_shutdown(broker_id)
            if want_fence or not self.must_wait(broker_id):
                self.grant_shutdown(broker_id)
        elif want_fence:
            self.lapse_session(broker_id)
        elif caught_up:
            self._unfence(broker_id)
        broker = self.image.brokers[broker_id]
        if not broker.fenced:
            self.sessions[broker_id] = now_ms + self.config.broker_session_timeout_ms
        return HeartbeatAnswer(ErrorCode.none, caught_up, broker.fenced, want_shut_down and broker.fenced)

    # --- controlled shutdown -----------------------------------------------------------------------------------

    def begin_shutdown(self, broker_id: int) -> bool:
        """A broker is about to stop: others take over what they can. False when that is known, or it is fenced."""
        if not self.image.is_active(broker_id):
            return False
        broker = self.image.brokers[broker_id]
        self._change_broker(
            BrokerRegistrationChangeRecord(broker_id, broker.broker_epoch, in_controlled_shutdown=True), self.relieved
        )
        return True

    def must_wait(self, broker_id: int) -> bool:
        """Whether the broker leads a partition that another live replica, which stays, could still take over."""
        return any(
            registration.leader == broker_id and any(map(self.image.is_active, registration.replicas))
            for _, _, registration in self.image.partitions()
        )

    def grant_shutdown(self, broker_id: int) -> bool:
        """The broker may stop: it is fenced, and leaves last where it is the last. False when it was fenced."""
        return self.lapse_session(broker_id)

    def broker_error(self, broker_id: int, broker_epoch: int) -> ErrorCode:
        """Whether a request comes from the registered process of the broker."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return ErrorCode.broker_id_not_registered
        return ErrorCode.none if broker.broker_epoch == broker_epoch else ErrorCode.stale_broker_epoch

    def expire_sessions(self, now_ms: int) -> list[int]:
        """Fence the brokers whose deadline has passed; returns their ids."""
        lapsed = [broker_id for broker_id, deadline in sorted(self.sessions.items()) if deadline <= now_ms]
        for broker_id in lapsed:
            self.lapse_session(broker_id)
        return lapsed

    @property
    def next_deadline_ms(self) -> int | None:
        """When `expire_sessions` next has something to do; None while no broker has a session."""
        return min(self.sessions.values(), default=None)

    def lapse_session(self, broker_id: int) -> bool:
        """Fence a broker: nothing has been heard of it for too long. False when it is fenced or unknown."""
        self.sessions.pop(broker_id, None)
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return False
        self._change_broker(
            BrokerRegistrationChangeRecord(broker_id, broker.broker_epoch, fenced=True),
            lambda topic, registration: self.without(topic, registration, broker_id, clean=True),
        )
        return True

    def unregister_broker(self, broker_id: int) -> ErrorCode:
        """Strike off a broker that is gone for good; its id stays in the replica lists (KIP-500)."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return ErrorCode.broker_id_not_registered
        self.sessions.pop(broker_id, None)
        self._change_broker(
            UnregisterBrokerRecord(broker_id, broker.broker_epoch),
            lambda topic, registration: self.without(topic, registration, broker_id, clean=False),
        )
        return ErrorCode.none

    def _unfence(self, broker_id: int) -> None:
        broker = self.image.brokers[broker_id]
        if not broker.fenced or broker.in_controlled_shutdown:
            return
        self._change_broker(
            BrokerRegistrationChangeRecord(broker_id, broker.broker_epoch, fenced=False),
            lambda topic, registration: registration,
        )

    def _change_broker(
        self,
        record: RegisterBrokerRecord | BrokerRegistrationChangeRecord | UnregisterBrokerRecord,
        change: Callable[[str, PartitionRegistration], PartitionRegistration],
    ) -> None:
        """One decision: the broker's new standing, and what it means for each of its partitions."""
        self._write(record)
        for topic, partition, old in list(self.image.partitions()):
            if record.broker_id in old.replicas:
                self._write_partition(topic, partition, old, self.with_leader(topic, change(topic, old)))
        self._commit()
