"""The members of a classic group in lockstep: the core of each beside its process in `spec.groups.classic`.

The harness is their shell: it sends what they ask, and gives them what they are told. How the leader shares out is the
machine's, with the claims that the implementation sees in what members say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.assignors.claims import claims
from tidegauge.impl.client.assignors.subscription import Assignment, Assignor, Members, Partition, Subscription
from tidegauge.impl.client.membership import Identity, Membership, State
from tidegauge.model_tests.harness.cores.group_abstraction import number_of
from tidegauge.spec.groups.classic import state as spec
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import NONE, Phase, Process
from tidegauge.spec.kernel.evolving import evolve

PHASES: Final = {
    State.UNJOINED: Phase.UNJOINED,
    State.JOINING: Phase.JOINING,
    State.JOINED: Phase.JOINED,
    State.SYNCING: Phase.SYNCING,
    State.STABLE: Phase.STABLE,
    State.UNSETTLED: Phase.STABLE,
    State.FENCED: Phase.FENCED,
    State.REFUSED: Phase.REFUSED,
}
Claims = Callable[[Members], Mapping[Partition, str]]


@attrs.frozen
class ClientRoles:
    """The classes and functions that play each part."""

    membership: type[Membership] = Membership
    claims: Claims = claims


CORRECT_CLIENTS: Final = ClientRoles()


class MachineAssignor:
    """Shares out as the machine does, with another one's claims."""

    tells_owned = False

    def __init__(self, machine: ClassicGroups, protocol: int, seen: Claims) -> None:
        self.name = str(protocol)
        self.is_cooperative = machine.cooperative
        fields = {field.name: getattr(machine, field.name) for field in attrs.fields(type(machine))}
        self._machine = Seeing(**fields, seen=seen)

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        names = {number_of(member_id): member_id for member_id in members}
        told = tuple((number_of(member_id), self._machine.abstract(said)) for member_id, said in members.items())
        shares = self._machine.shares(told, sum(partitions.values()))
        return {names[one.member_id]: tuple(map(self._machine.concrete, one.partitions)) for one in shares}


@attrs.frozen
class Seeing(ClassicGroups):
    """The machine, with the claims that the implementation sees."""

    seen: Claims = claims

    def claims(self, members: Sequence[tuple[int, spec.Subscription]]) -> Mapping[int, int]:
        told = {f"m-{number}": self.subscription(said) for number, said in members}
        return {self.number(partition): number_of(owner) for partition, owner in self.seen(told).items()}

    def concrete(self, partition: int) -> Partition:
        return f"t{partition % self.topics}", partition // self.topics

    def number(self, partition: Partition) -> int:
        return partition[1] * self.topics + int(partition[0][1:])

    def subscription(self, said: spec.Subscription) -> Subscription:
        topics = tuple(f"t{topic}" for topic in said.topics)
        return Subscription(topics, tuple(map(self.concrete, said.owned)), said.generation)

    def abstract(self, said: Subscription) -> spec.Subscription:
        topics = tuple(int(topic[1:]) for topic in said.topics)
        return spec.Subscription(topics, tuple(sorted(map(self.number, said.owned))), said.generation)


class GroupClients:
    """The members of one group, by the numbers of their processes."""

    def __init__(self, machine: ClassicGroups, roles: ClientRoles) -> None:
        self.machine = machine
        self.roles = roles
        self.of: dict[int, Membership] = {}
        fields = {field.name: getattr(machine, field.name) for field in attrs.fields(type(machine))}
        self._names = Seeing(**fields)

    def start(self, process: int) -> None:
        protocols = self.machine.protocols_of(process)
        assignors: tuple[Assignor, ...] = tuple(
            MachineAssignor(self.machine, each, self.roles.claims) for each in protocols
        )
        instance = self.machine.instance_of(process)
        topics = [f"t{topic}" for topic in range(self.machine.topics)]
        self.of[process] = self.roles.membership(topics, assignors, None if instance == NONE else f"i{instance}")

    def stop(self, process: int) -> None:
        self.of.pop(process, None)

    def counts(self, partitions: int) -> dict[str, int]:
        """How many partitions each topic has."""
        topics = self.machine.topics
        return {f"t{topic}": len(range(topic, partitions, topics)) for topic in range(topics)}

    def numbers(self, partitions: Iterable[Partition]) -> tuple[int, ...]:
        """Of these partitions."""
        return tuple(sorted(map(self._names.number, partitions)))

    # --- what they ask -------------------------------------------------------------------------------------------

    def join(self, request: spec.JoinRequest) -> None:
        """It sends what the machine says."""
        member = self.of[request.process]
        assert member.wants_to_join(), "it has nothing to join for"
        given = member.to_give_back()
        assert given.is_lost == (number_of(member.identity.member_id) == NONE or member.identity.generation == NONE)
        kept = [each for each in member.owned if each not in given.partitions]
        member.join()
        assert list(member.owned) == kept, "what is not given back is kept"
        said = self._names.abstract(member.says(member.assignors[0]))
        assert said == request.subscription, f"it says {said}, and not {request.subscription}"
        assert number_of(member.identity.member_id) == request.member_id

    def refused_to_join(self, process: int, error: ErrorCode, member_id: str) -> None:
        if error is ErrorCode.member_id_required:
            self.of[process].member_id_given(member_id)
        else:
            self.of[process].failed(error)

    def sync(self, request: spec.SyncRequest) -> None:
        member = self.of[request.process]
        shares = {number_of(member_id): self.numbers(each) for member_id, each in member.sync().items()}
        assert shares == {one.member_id: one.partitions for one in request.shares}

    def told(self, request: spec.HeartbeatRequest | spec.CommitRequest, name: str, error: ErrorCode) -> ErrorCode:
        """A response reaches its member, however late; returns its error."""
        member = self.of.get(request.process)
        if member is not None and error is not ErrorCode.none:
            member.told(error, Identity(name, request.generation))
        return error

    def may_commit(self, request: spec.CommitRequest) -> None:
        assert self.of[request.process].may_commit(), "the machine says that it may"

    # --- what they are told --------------------------------------------------------------------------------------

    def receive(self, process: int, response: spec.Response, name_of: Callable[[int], str], partitions: int) -> None:
        member = self.of[process]
        match response:
            case spec.Joined(member_id, generation, protocol, leader, members):
                identity = Identity(name_of(member_id), generation)
                told = {name_of(number): self._names.subscription(said) for number, said in members}
                member.joined(identity, str(protocol), name_of(leader), told, self.counts(partitions))
            case spec.Synced(given):
                before = member.owned
                changes = member.synced(map(self._names.concrete, given))
                assert set(before) - set(changes.revoked) | set(changes.assigned) == set(member.owned)
            case spec.Failed(error):
                member.failed(ErrorCode(error.value))

    def lose_connection(self, process: int) -> None:
        if process in self.of:
            self.of[process].lost_connection()

    def resubscribe(self, process: int) -> None:
        member, every = self.of[process], [f"t{topic}" for topic in range(self.machine.topics)]
        member.subscribe(every[:-1] if list(member.topics) == every else every)

    def notice(self, process: int, partitions: int) -> None:
        assert self.of[process].notices(self.counts(partitions)), "it sees that there are more"

    # --- what is compared ----------------------------------------------------------------------------------------

    def abstraction(self, number: int, process: Process) -> Process:
        """What a process is; where it goes on in its partitions, and whether it hangs, is copied."""
        member = self.of.get(number)
        if member is None:
            return Process()
        phase = PHASES[member.state]
        if phase in (Phase.FENCED, Phase.REFUSED):
            return Process(phase)
        return evolve(
            process,
            phase=phase,
            member_id=number_of(member.identity.member_id),
            generation=member.identity.generation,
            protocol=NONE if member.protocol is None else int(member.protocol),
            topics=tuple(int(topic[1:]) for topic in member.topics),
            asked=tuple(int(topic[1:]) for topic in member.asked),
            leads=member.leads,
            known=sum(member.known.values()),
            shares=tuple(spec.Share(number_of(one), self.numbers(each)) for one, each in member.shares.items()),
            owned=self.numbers(member.owned),
            rejoin=member.state is State.UNSETTLED,
        )
