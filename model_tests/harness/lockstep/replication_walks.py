"""Random walks of replicated partitions: their constants, which actions perturb, and rounds of several actions.

Perturbations alone never let a cluster commit anything worth losing. So a walk now and then takes a *round*: everything
heals and arrives, or every follower fetches, or one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Final

from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan, enabled_candidates
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks

BROKERS: Final = 3
RECORDS: Final = 40
"""The most records that one walk or example appends."""

PERTURBATIONS: Final[frozenset[type[Action]]] = frozenset(
    {
        control.ShrinkIsr,
        control.PreferredElection,
        control.UncleanElection,
        faults.ExpireSession,
        faults.Crash,
        faults.Pause,
        faults.Disconnect,
        faults.DisconnectController,
        faults.ControllerFailover,
    }
)
"""Actions of replication without extensions that are left out of most walks."""


def large_machine(
    *,
    brokers: int = BROKERS,
    min_insync_replicas: int = 1,
    unclean_leader_election: bool = False,
    delayed_metadata: bool = False,
    extensions: tuple[ReplicationExtension, ...] = (),
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
        extensions=extensions,
    ).without_bounds()


def replication_walks(
    *extensions: ReplicationExtension,
    perturbations: frozenset[type[Action]] = frozenset(),
    drawn: Callable[[Random], tuple[ReplicationExtension, ...]] | None = None,
) -> WalkPlan[Replication]:
    """Walks of the machine with these extensions; most walks leave `perturbations`, actions of theirs, out.

    `drawn`: the same extensions with the constants of one walk.
    """

    def draw(rng: Random) -> Replication:
        return large_machine(
            min_insync_replicas=rng.choice((1, 1, 2)),
            unclean_leader_election=rng.choice((False, True)),
            delayed_metadata=True,
            extensions=extensions if drawn is None else drawn(rng),
        )

    return WalkPlan(draw, PERTURBATIONS | perturbations, rounds=ROUNDS, enabled=enabled_candidates)


# --- rounds: the actions are chosen one by one, each in the state that the former ones led to ------------------------


def quiet_round(lockstep: Lockstep[Replication]) -> Iterator[Action]:
    """Everything heals, every follower fetches, and all messages arrive: what happens in a second without faults."""
    for broker in range(lockstep.machine.brokers):
        for heal in (faults.Resume, faults.Restart, faults.Register, control.ApplyMetadata, faults.Unfence):
            yield heal(broker)
    yield from arrivals(lockstep)
    for broker in range(lockstep.machine.brokers):
        yield control.ApplyMetadata(broker)
        yield control.RetryAlterPartition(broker)
    yield from fetch_round(lockstep)


def fetch_round(lockstep: Lockstep[Replication]) -> Iterator[Action]:
    """Every follower fetches once and all messages arrive; brokers stay fenced, and their metadata old."""
    for broker in range(lockstep.machine.brokers):
        yield protocol.SendFetch(broker)
    yield from arrivals(lockstep)


def one_fetch(lockstep: Lockstep[Replication], follower: int) -> Iterator[Action]:
    """One follower fetches and gets the response."""
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
    """A leader's ISR proposal is lost, and made again."""
    yield faults.DisconnectController(leader)
    yield control.RetryAlterPartition(leader)


def leaderless(lockstep: Lockstep[Replication]) -> Iterator[Action]:
    """All sessions of the ISR expire, and brokers outside the ELR return: only an unclean election helps."""
    for _ in range(2 * lockstep.machine.brokers):
        if lockstep.state.controller.isr:
            yield faults.ExpireSession(lockstep.state.controller.isr[0])
    for broker in range(lockstep.machine.brokers):
        if broker not in lockstep.state.controller.elr:
            yield faults.Unfence(broker)


def arrivals(lockstep: Lockstep[Replication]) -> Iterator[Action]:
    """Every message on its way arrives, and so does the response to it."""
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


def _quiet(lockstep: Lockstep[Replication], rng: Random) -> Iterator[Action]:
    return quiet_round(lockstep)


def _fetches(lockstep: Lockstep[Replication], rng: Random) -> Iterator[Action]:
    return fetch_round(lockstep)


def _one_fetch(lockstep: Lockstep[Replication], rng: Random) -> Iterator[Action]:
    return one_fetch(lockstep, rng.randrange(lockstep.machine.brokers))


ROUNDS: Final[tuple[Callable[[Lockstep[Replication], Random], Iterator[Action]], ...]] = (
    _quiet,
    _fetches,
    _fetches,
    _one_fetch,
    _one_fetch,
)
