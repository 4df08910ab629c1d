"""Lockstep: the specification and an implementation take the same steps, and are compared after each.

Theory of operation
-------------------
A `Binding` makes some implementation (bare cores, a trio cluster) perform actions of a machine of the specification
(`spec.replication` and what extends it, `spec.idempotence`), and reads its state back as a state of that machine.
`Lockstep` keeps a specification state beside it. An action that isn't enabled in the specification is skipped on both
sides, so any list of actions means something and any sub-list of it as well; an enabled one is performed on both, and
then every field must agree: replicas, controller, messages on their way, and which producers were answered. Only the
specification's own book-keeping for its invariants has no counterpart.

Comparing states finds a bug at the step where it acts, long before an invariant falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from tidegauge.model_tests.harness.validation.observed import UNBOUNDED
from tidegauge.spec.kernel.changes import Change, changes, plain
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks

BROKERS = 3
RECORDS = 40
"""Records that one example may append."""


class Binding(Protocol):
    """An implementation that can be told what to do next, one action of the specification at a time."""

    def perform(self, action: Any, before: Any) -> None:
        """Do what the specification does in `action`, which is enabled in its state `before`."""

    def abstraction(self, state: Any) -> Any:
        """The implementation's state in the specification's terms; `state` lends what only the prover has."""

    def close(self) -> None:
        """Stop, and give everything back."""


Bind = Callable[[Any], Binding]
"""Makes an implementation with a machine's constants, in the machine's initial state."""


@runtime_checkable
class Selective(Protocol):
    """A binding that cannot make everything happen that the specification allows."""

    def can_perform(self, action: Any, before: Any) -> bool:
        """Whether this implementation ever does that in a state like its present one; if not, it is not asked to."""


@runtime_checkable
class Choosing(Protocol):
    """A binding that decides something itself, which no state shows."""

    def differences(self, state: Any) -> Iterable[Change]:
        """Where it would decide otherwise than the specification in its state `state`."""


class Difference(AssertionError):  # noqa: N818 - a finding
    """The implementation's state is not the specification's after an action."""

    def __init__(self, action: Action | None, found: tuple[Change, ...]) -> None:
        self.action = action
        self.changes = found
        after = f"after {plain(action)}" if action is not None else "in the initial state"
        lines = "".join(
            f"\n  {change.path}: specification {plain(change.before)}, implementation {plain(change.after)}"
            for change in found
        )
        super().__init__(f"the implementation differs {after}:{lines}")

    @property
    def path(self) -> str:
        """Where the first difference is."""
        return self.changes[0].path


def large_machine(
    *,
    brokers: int = BROKERS,
    min_insync_replicas: int = 1,
    unclean_leader_election: bool = False,
    delayed_metadata: bool = False,
) -> Replication:
    """The specification with constants that bound nothing but the number of records."""
    return Replication(
        brokers=brokers,
        max_records=RECORDS,
        min_insync_replicas=min_insync_replicas,
        unclean_leader_election=unclean_leader_election,
        acks=tuple(Acks),
        long_polls=True,
        delayed_metadata=delayed_metadata,
        bounds=UNBOUNDED,
    )


M = TypeVar("M", bound=Machine[Any])


class Lockstep(Generic[M]):
    """A specification state, an implementation, and the actions that both have taken."""

    def __init__(self, machine: M, binding: Binding) -> None:
        """Raises Difference when they differ to begin with."""
        self.machine = machine
        self.binding = binding
        self.state: Any = next(iter(machine.initial()))
        self.actions: list[Action] = []
        self._selective = binding if isinstance(binding, Selective) else None
        self._choosing = binding if isinstance(binding, Choosing) else None
        self._compare(None, binding.abstraction(self.state))

    def perform(self, action: Action) -> bool:
        """Take `action` on both sides and compare; False if it is not enabled. Raises Difference."""
        if not self._can_perform(action):
            return False
        try:
            after = self.machine.step(self.state, action)
        except NotEnabled:
            return False
        self.actions.append(action)
        before, self.state = self.state, after
        try:
            self.binding.perform(action, before)
            actual = self.binding.abstraction(after)
        except Exception as error:
            raise Difference(action, (Change("error", "none", f"{type(error).__name__}: {error}"),)) from error
        self._compare(action, actual)
        return True

    def is_enabled(self, action: Any) -> bool:
        return not action.guard(self.machine, self.state) and self._can_perform(action)

    def _can_perform(self, action: Action) -> bool:
        return self._selective is None or self._selective.can_perform(action, self.state)

    def close(self) -> None:
        """Stop the implementation."""
        self.binding.close()

    def _compare(self, action: Action | None, actual: Any) -> None:
        if actual != self.state:
            raise Difference(action, tuple(changes(self.state, actual)))
        if self._choosing is not None and (found := tuple(self._choosing.differences(self.state))):
            raise Difference(action, found)


def calm_round(lockstep: Lockstep[Replication]) -> Iterator[Action]:
    """All that heals happens, every follower fetches and all messages arrive: what a quiet second does to a cluster.

    Yields the actions to perform, each chosen in the state that the former ones led to.
    """
    for broker in range(lockstep.machine.brokers):
        for heal in (faults.Resume, faults.Restart, faults.Register, control.ApplyMetadata, faults.Unfence):
            yield heal(broker)
    yield from arrivals(lockstep)
    for broker in range(lockstep.machine.brokers):
        yield control.ApplyMetadata(broker)
        yield control.RetryAlterPartition(broker)
    yield from fetch_round(lockstep)


def fetch_round(lockstep: Lockstep[Replication]) -> Iterator[Action]:
    """Every follower fetches once and all messages arrive; who is fenced or knows old metadata stays so."""
    for broker in range(lockstep.machine.brokers):
        yield protocol.SendFetch(broker)
    yield from arrivals(lockstep)


def one_fetch(lockstep: Lockstep[Replication], follower: int) -> Iterator[Action]:
    """One follower fetches and gets its answer."""
    yield protocol.SendFetch(follower)
    for fetch in [m for m in lockstep.state.network.fetches if m.follower == follower]:
        yield protocol.ReceiveFetch(fetch, lockstep.machine.max_records)
    for response in [m for m in lockstep.state.network.fetch_responses if m.request.follower == follower]:
        yield protocol.ReceiveFetchResponse(response)


def long_poll(lockstep: Lockstep[Replication], follower: int) -> Iterator[Action]:
    """One follower fetches, and its leader holds the fetch."""
    yield protocol.SendFetch(follower)
    for fetch in [m for m in lockstep.state.network.fetches if m.follower == follower]:
        yield protocol.HoldFetch(fetch)


def lost_proposal(lockstep: Lockstep[Replication], leader: int) -> Iterator[Action]:
    """A leader's ISR proposal is lost on its way, and made again."""
    yield faults.DisconnectController(leader)
    yield control.RetryAlterPartition(leader)


def leaderless(lockstep: Lockstep[Replication]) -> Iterator[Action]:
    """Everyone in sync lapses, the last one too; those that were not come back, and can only be elected uncleanly."""
    for _ in range(2 * lockstep.machine.brokers):
        if lockstep.state.controller.isr:
            yield faults.LapseSession(lockstep.state.controller.isr[0])
    for broker in range(lockstep.machine.brokers):
        if broker not in lockstep.state.controller.elr:
            yield faults.Unfence(broker)


def arrivals(lockstep: Lockstep[Replication]) -> Iterator[Action]:
    """Every message that is on its way arrives, and so do the answers to it."""
    while action := next(_deliverable(lockstep), None):
        yield action


def _deliverable(lockstep: Lockstep[Replication]) -> Iterator[Action]:
    network, everything = lockstep.state.network, lockstep.machine.max_records
    candidates: Iterable[protocol.ReplicationAction] = (
        *(control.ReceiveAlterPartition(m) for m in network.alters),
        *(control.ReceiveAlterPartitionResponse(m) for m in network.alter_responses),
        *(protocol.ReceiveFetch(m, everything) for m in network.fetches),
        *(protocol.ReceiveFetchResponse(m) for m in network.fetch_responses),
    )
    return (action for action in candidates if lockstep.is_enabled(action))
