"""The rules of consumer groups, all together, and the constants that they ask; those of a member are here.

A rule is a method, so that a bug (`spec.bugs`) can override it. `machine` tells how it works.
"""

from __future__ import annotations

import attrs

from tidegauge.spec.groups.consumer.coordinator_rules import CoordinatorRules
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NONE,
    STATIC_LEAVING_EPOCH,
    CommitRequest,
    Error,
    HeartbeatRequest,
    Phase,
    Process,
    Response,
    State,
)
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve

DEFAULT_BOUNDS = Bounds()


@attrs.frozen
class ConsumerRules(CoordinatorRules):
    """What a machine of consumer groups decides; its fields are the constants of the model."""

    processes: int = 2
    instances: tuple[int, ...] = ()
    """The group instance id of each process; NONE, or nothing at the end, where it is a dynamic member."""
    expressions: tuple[int, ...] = ()
    """The regular expression of each process; NONE, or nothing at the end, where it names topics."""
    named: tuple[int, ...] = ()
    """The topics that a process names besides its regular expression."""
    partitions: int = 2
    """At first, and also of topics that are still to come."""
    commits: int = 0
    """Of each partition: what a model is cut off at, no rule."""
    bounds: Bounds = DEFAULT_BOUNDS

    @property
    def writes_in_two_steps(self) -> bool:
        """Whether a coordinator may be replaced before its records are committed; else they are at once."""
        return "FailOver" in self.bounds

    @property
    def most_partitions(self) -> int:
        """As many as there will ever be."""
        return self.partitions + self.bounds["AddPartition"]

    @property
    def first_topics(self) -> int:
        """The others are created later."""
        return max(1, self.topics - self.bounds["CreateTopic"])

    def expression_of(self, process: int) -> int:
        """The regular expression of a process."""
        return self.expressions[process] if process < len(self.expressions) else NONE

    def instance_of(self, process: int) -> int:
        """The group instance id of a process."""
        return self.instances[process] if process < len(self.instances) else NONE

    # --- rules of a member -----------------------------------------------------------------------------------------

    def started(self, member_id: int, expression: int) -> Process:
        """A process that knows nothing but what it wants."""
        topics = tuple(range(self.topics)) if expression == NONE else self.named
        positions = (NONE,) * self.most_partitions
        return Process(Phase.UP, member_id, topics=topics, expression=expression, positions=positions)

    def new_member_id(self, state: State) -> int:
        """Every process makes a member id that nobody has had."""
        return state.member_ids

    def heartbeat_request(self, state: State, number: int) -> HeartbeatRequest | None:
        """The heartbeat that a process sends: what it owns only if that is new, and not while it reconciles."""
        process = state.processes[number]
        if process.phase is not Phase.UP or process.waiting:
            return None
        full = process.full or process.epoch == JOINING_EPOCH
        is_new = process.assigned is None and process.owned != process.said
        owned = process.owned if full or is_new else None
        wanted = process.topics, process.expression
        return HeartbeatRequest(number, process.member_id, process.epoch, *wanted, owned, full)

    def leave_request(self, state: State, number: int) -> HeartbeatRequest | None:
        """The heartbeat of a process that ends; a static member says that it comes back."""
        process = state.processes[number]
        if not process.works or process.waiting or process.epoch == JOINING_EPOCH:
            return None
        is_static = self.instance_of(number) != NONE
        return HeartbeatRequest(number, process.member_id, STATIC_LEAVING_EPOCH if is_static else LEAVING_EPOCH)

    def after_response(self, process: Process, request: HeartbeatRequest, response: Response) -> Process:
        """A member in its epoch; what it is assigned it is to make its own."""
        said = request.owned if request.owned is not None else process.said
        asked = request.topics, request.expression
        process = evolve(process, epoch=response.epoch, said=said, asked=asked, full=False, waiting=False)
        if response.assignment is None:
            return process
        process = evolve(process, said=self.said_after_assignment(process))
        return evolve(process, assigned=None if response.assignment == process.owned else response.assignment)

    def said_after_assignment(self, process: Process) -> tuple[int, ...] | None:
        """Every assignment is acknowledged by what a member owns then, though that may be what it has owned before."""
        return None

    def after_error(self, process: Process, error: Error) -> Process:
        """A member that is none any more owns nothing, and joins again under its id; one that is replaced ends."""
        if error is Error.FENCED_INSTANCE_ID:
            return Process(Phase.FENCED)
        unknown = tuple(NONE for _ in process.positions)
        process = evolve(process, epoch=JOINING_EPOCH, full=True, said=None, waiting=False, positions=unknown)
        return evolve(process, owned=self.kept_when_fenced(process), assigned=None)

    def kept_when_fenced(self, process: Process) -> tuple[int, ...]:
        """What a fenced member owns may be another's already."""
        return ()

    def after_loss(self, process: Process) -> Process:
        """A process whose heartbeat had no response: the next one says all, and asks for all.

        What it was assigned and does not own yet it forgets: it says that it does not own it, and so may lose it.
        """
        return evolve(process, full=True, waiting=False, assigned=None)

    def to_give_back(self, process: Process) -> tuple[int, ...]:
        """What a member has to let go before it owns what it is assigned."""
        return () if process.assigned is None else tuple(one for one in process.owned if one not in process.assigned)

    def after_giving_back(self, process: Process) -> Process:
        """A member owns what it keeps, and says nothing of that yet."""
        gone = self.to_give_back(process)
        return evolve(process, owned=tuple(one for one in process.owned if one not in gone))

    def after_reconciling(self, process: Process) -> Process:
        """A member owns what it was assigned; where it goes on in what is new it has to ask."""
        assert process.assigned is not None, "the guard says so"
        places = enumerate(process.positions)
        positions = tuple(at if place in process.owned else NONE for place, at in places)
        return evolve(process, owned=process.assigned, assigned=None, positions=positions)

    def commit_request(self, state: State, number: int, partition: int) -> CommitRequest | None:
        """The commit of the next record of a partition."""
        process = state.processes[number]
        if not process.works or partition not in process.owned or process.epoch == JOINING_EPOCH:
            return None
        position = process.positions[partition]
        if position == NONE or position >= self.commits:
            return None
        return CommitRequest(number, process.member_id, process.epoch, partition, position + 1)
