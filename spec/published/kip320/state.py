"""The state of the published KIP-320 model (see `spec.published.kip320.machine`): replicas, quorum, requests."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.piecemeal import IN_PARTS, PIECEMEAL

NO_EPOCH = -1


@attrs.frozen(cache_hash=True)
class Record:
    """A record: a unique id, and the leader epoch in which it was written."""

    id: int
    epoch: int


Log = tuple[Record, ...]


@attrs.frozen(cache_hash=True)
class LeaderAndIsr:
    """What the quorum holds, and what the controller sends to the replicas."""

    leader: int | None
    leader_epoch: int
    isr: frozenset[int]


@attrs.frozen(cache_hash=True)
class Replica:
    """A replica's log and high watermark, and the LeaderAndIsr that it last obeyed."""

    log: Log = attrs.field(metadata=PIECEMEAL)
    hw: int
    leader: int | None
    leader_epoch: int
    isr: frozenset[int]

    @property
    def end_offset(self) -> int:
        return len(self.log)


@attrs.frozen
class State:
    """The partition: its replicas by id, the quorum, every LeaderAndIsr request ever sent (by epoch), the next id."""

    replicas: tuple[Replica, ...]
    quorum: LeaderAndIsr
    requests: tuple[LeaderAndIsr, ...] = attrs.field(metadata=IN_PARTS)
    next_record_id: int

    def presumes_leadership(self, replica: int) -> bool:
        """It thinks that it leads; it may be a zombie."""
        return self.replicas[replica].leader == replica

    def is_true_leader(self, replica: int) -> bool:
        """It thinks that it leads, and the quorum agrees on that and on the epoch."""
        own = self.replicas[replica]
        return own.leader == replica == self.quorum.leader and own.leader_epoch == self.quorum.leader_epoch

    def with_replica(self, replica: int, changed: Replica) -> State:
        replicas = [*self.replicas]
        replicas[replica] = changed
        return evolve(self, replicas=tuple(replicas))

    def with_controller_update(self, leader: int | None, isr: frozenset[int]) -> State:
        """The controller writes a new leader or ISR to the quorum under the next epoch, and sends it out."""
        update = LeaderAndIsr(leader, self.quorum.leader_epoch + 1, isr)
        return evolve(self, quorum=update, requests=(*self.requests, update))

    def with_leader_update(self, leader: int, isr: frozenset[int]) -> State:
        """The leader writes a new ISR to the quorum, at once and without a new epoch, and holds it from now on."""
        changed = evolve(self.replicas[leader], isr=isr)
        updated = evolve(self.quorum, isr=isr)
        return evolve(self.with_replica(leader, changed), quorum=updated)
