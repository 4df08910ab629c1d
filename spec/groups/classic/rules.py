"""The rules of classic groups, all together, and the constants that they ask; those of a member are here.

A rule is a method, so that a historical bug (`spec.bugs`) can override it. `machine` tells how it works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tidegauge.spec.groups.classic.coordinator_rules import CoordinatorRules
from tidegauge.spec.groups.classic.state import (
    NONE,
    CommitRequest,
    Error,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    Phase,
    Process,
    Share,
    State,
    Subscription,
    SyncRequest,
)
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve

DEFAULT_BOUNDS = Bounds()


@attrs.frozen
class GroupRules(CoordinatorRules):
    """What a machine of classic groups decides; its fields are the constants of the model."""

    processes: int = 2
    instances: tuple[int, ...] = ()
    """The group instance id of each process; NONE, or nothing at the end, where it is a dynamic member."""
    protocols: tuple[tuple[int, ...], ...] = ()
    """The assignors that each process knows, the best one first; nothing at the end where it knows 0 only."""
    cooperative: bool = False
    """Whether members go on with what they own while they join (KIP-429)."""
    partitions: int = 2
    """At first."""
    topics: int = 1
    """Partition p is of topic p modulo so many."""
    commits: int = 0
    """Of each partition: what a model is cut off at, no rule."""
    bounds: Bounds = DEFAULT_BOUNDS

    @property
    def writes_in_two_steps(self) -> bool:
        """Whether a coordinator may be replaced before its record is committed; else it is at once."""
        return "FailOver" in self.bounds

    @property
    def most_partitions(self) -> int:
        """As many as there will ever be."""
        return self.partitions + self.bounds["AddPartition"]

    def instance_of(self, process: int) -> int:
        """The group instance id of a process."""
        return self.instances[process] if process < len(self.instances) else NONE

    def protocols_of(self, process: int) -> tuple[int, ...]:
        """The assignors that a process knows."""
        return self.protocols[process] if process < len(self.protocols) else (0,)

    # --- rules of a member ---------------------------------------------------------------------------------------

    def started(self) -> Process:
        """A process that knows nothing but what it wants."""
        return Process(Phase.UNJOINED, topics=tuple(range(self.topics)), positions=(NONE,) * self.most_partitions)

    def wants_to_join(self, process: Process) -> bool:
        """Whether a member joins again, to learn or to change what it owns."""
        return process.rejoin or process.topics != process.asked

    def kept_on_joining(self, process: Process) -> tuple[int, ...]:
        """What a member goes on with while it joins: all others are revoked, or lost, before."""
        if not self.cooperative or NONE in (process.member_id, process.generation):
            return ()
        return tuple(each for each in process.owned if each % self.topics in process.topics)

    def says(self, process: Process) -> Subscription:
        """What a member says of itself, after it has revoked what it has to."""
        if not self.cooperative:
            return Subscription(process.topics)
        return Subscription(process.topics, process.owned, process.generation)

    def after_error(self, process: Process, error: Error) -> Process:
        """What a member makes of an error that is about itself. One of a former generation keeps its member id."""
        match error:
            case Error.FENCED_INSTANCE_ID:
                return Process(Phase.FENCED)
            case Error.INCONSISTENT_GROUP_PROTOCOL:
                return Process(Phase.REFUSED)
            case Error.UNKNOWN_MEMBER_ID:
                return evolve(self.rejoining(process), member_id=NONE, generation=NONE)
            case Error.ILLEGAL_GENERATION:
                return evolve(self.rejoining(process), generation=NONE)
            case _:
                return self.rejoining(process)

    def rejoining(self, process: Process) -> Process:
        """A process that joins again, as what it was."""
        return evolve(process, phase=Phase.UNJOINED, response=None, shares=(), leads=False, rejoin=False)

    def is_about_now(self, process: Process, request: HeartbeatRequest) -> bool:
        """Whether the response to a heartbeat is about what the member is now (KAFKA-9823)."""
        now = (process.member_id, process.generation)
        return process.phase in (Phase.JOINED, Phase.SYNCING, Phase.STABLE) and now == (
            request.member_id,
            request.generation,
        )

    def may_commit(self, process: Process) -> bool:
        """A member commits while it has the assignment of its generation."""
        return process.phase is Phase.STABLE

    def after_sync(self, process: Process, partitions: tuple[int, ...]) -> Process:
        """A member that has its assignment. If it had to give something back, it says so by joining again."""
        revoked = set(process.owned) - set(partitions)
        places = enumerate(process.positions)
        positions = tuple(at if place in process.owned and place in partitions else NONE for place, at in places)
        return evolve(
            process,
            phase=Phase.STABLE,
            owned=partitions,
            positions=positions,
            response=None,
            shares=(),
            rejoin=bool(revoked),
        )

    def known_on_joining(self, process: Process, generation: int, partitions: int) -> int:
        """How many partitions the leader takes to be shared out; no more than when it first led this generation.

        If it has lost its connection, its first shares may be what counts, and not those that it makes now.
        """
        has_led = process.known > 0 and generation == process.generation
        return process.known if has_led else partitions

    def notices(self, process: Process, partitions: int) -> bool:
        """The leader looks whether there are more partitions than it has shared out."""
        return process.phase is Phase.STABLE and process.leads and process.known < partitions

    # --- rules of the leader -------------------------------------------------------------------------------------

    def claims(self, members: Sequence[tuple[int, Subscription]]) -> Mapping[int, int]:
        """Who has which partition: who says so of the latest generation counts, unless two do (KAFKA-12984)."""
        latest = max((said.generation for _, said in members), default=NONE)
        claims: dict[int, list[int]] = {}
        for member_id, said in members:
            if said.generation == latest:
                for partition in said.owned:
                    claims.setdefault(partition, []).append(member_id)
        return {partition: owners[0] for partition, owners in claims.items() if len(owners) == 1}

    def target(self, members: Sequence[tuple[int, Subscription]], partitions: int) -> dict[int, list[int]]:
        """Who is to have what in the end: what it has, as far as that is fair, and the rest by who has least."""
        claims = self.claims(members) if self.cooperative else {}
        target: dict[int, list[int]] = {member_id: [] for member_id, _ in members}
        most = -(-partitions // max(1, len(members)))
        left = []
        for partition in range(partitions):
            takers = [member_id for member_id, said in members if partition % self.topics in said.topics]
            owner = claims.get(partition, NONE)
            if owner in takers and (len(target[owner]) < most or len(takers) == 1):
                target[owner].append(partition)
            elif takers:
                left.append((partition, takers))
        for partition, takers in left:
            target[min(takers, key=lambda taker: len(target[taker]))].append(partition)
        return target

    def shares(self, members: Sequence[tuple[int, Subscription]], partitions: int) -> tuple[Share, ...]:
        """What the leader gives to each member: its part of the target, without what another one has yet."""
        target = self.target(members, partitions)
        claims = self.claims(members) if self.cooperative else {}
        return tuple(
            Share(member_id, tuple(each for each in sorted(given) if self.is_free(claims, each, member_id)))
            for member_id, given in target.items()
        )

    def is_free(self, claims: Mapping[int, int], partition: int, member_id: int) -> bool:
        """A partition is given to a member when no other one has it (KIP-429): it has to be revoked first."""
        return claims.get(partition, member_id) == member_id

    # --- what a process asks -------------------------------------------------------------------------------------

    def preparing(self, process: Process) -> Process:
        """The process as it sends JoinGroup."""
        owned = self.kept_on_joining(process)
        return evolve(process, phase=Phase.JOINING, owned=owned, asked=process.topics, rejoin=False, leads=False)

    def join_request(self, state: State, number: int) -> JoinRequest | None:
        """The JoinGroup that a process has to send."""
        process = state.processes[number]
        is_due = process.phase is Phase.UNJOINED or (process.phase is Phase.STABLE and self.wants_to_join(process))
        if process.hung or not is_due:
            return None
        return JoinRequest(number, process.member_id, self.says(self.preparing(process)))

    def sync_request(self, state: State, number: int) -> SyncRequest | None:
        """The SyncGroup that a process has to send."""
        process = state.processes[number]
        if process.hung or process.phase is not Phase.JOINED:
            return None
        return SyncRequest(number, process.member_id, process.generation, process.protocol, process.shares)

    def heartbeat_request(self, state: State, number: int) -> HeartbeatRequest | None:
        """The heartbeat that a member sends now and then."""
        process = state.processes[number]
        if process.phase not in (Phase.JOINED, Phase.SYNCING, Phase.STABLE):
            return None
        return HeartbeatRequest(number, process.member_id, process.generation)

    def leave_request(self, state: State, number: int) -> LeaveRequest | None:
        """The LeaveGroup of a process that ends; a static member leaves by its time-out only."""
        process = state.processes[number]
        if process.hung or process.member_id == NONE or self.instance_of(number) != NONE:
            return None
        return LeaveRequest(number, process.member_id)

    def commit_request(self, state: State, number: int, partition: int) -> CommitRequest | None:
        """The commit of the next record of a partition."""
        process = state.processes[number]
        if process.hung or partition not in process.owned or not self.may_commit(process):
            return None
        position = process.positions[partition]
        if position == NONE or position >= self.commits:
            return None
        return CommitRequest(number, process.member_id, process.generation, partition, position + 1)
