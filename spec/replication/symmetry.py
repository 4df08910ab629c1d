"""Which replicas of a partition are interchangeable, and a state with other names for them.

Elections go by the order of the replica list: the first live member of the ISR leads. So as soon as the leader may
change no two brokers are alike, and a reduction would be wrong. If the order were chosen at the beginning instead, each
orbit would hold one state for each order, and nothing would be saved. But where nothing in a model can end the first
leadership, followers differ in nothing but their names: they are renamed among themselves, the leader never.
`spec.kernel.symmetry` says how that is used, and `check_symmetry` counts whether it is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.parts import Parts, parts_of
from tidegauge.spec.replication.state import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    Controller,
    FetchRequest,
    FetchResponse,
    Network,
    PartitionMetadata,
    Replica,
    State,
)

T = TypeVar("T")

Names: TypeAlias = tuple[int, ...]
"""The new name of each broker."""

LEADER_STAYS: Final = frozenset({"ControllerFailover", "Disconnect", "DuplicateFetch", "Pause", "ShrinkIsr"})
"""Perturbations of the machine without extensions that end no leadership."""


def names_of(brokers: int, leader: int, permutation: Sequence[int]) -> Names:
    """The new names of all brokers when follower `i`, counted without the leader, becomes `permutation[i]`."""
    followers = [broker for broker in range(brokers) if broker != leader]
    names = list(range(brokers))
    for place, other in enumerate(permutation):
        names[followers[place]] = followers[other]
    return tuple(names)


def renamed_state(state: State, names: Names) -> State:
    """The state in which each broker has its new name."""
    return State(
        _moved([_replica(replica, names) for replica in state.replicas], names),
        _controller(state.controller, names),
        _network(state.network, names),
        state.history,
        state.spent,
    )


def renamed_brokers(brokers: Iterable[int], names: Names) -> tuple[int, ...]:
    """A set of brokers, in order; -1 is nobody's name."""
    return tuple(sorted(_name(broker, names) for broker in brokers))


def _name(broker: int, names: Names) -> int:
    return names[broker] if broker >= 0 else broker


def _moved(by_broker: Sequence[T], names: Names) -> tuple[T, ...]:
    """What is indexed by broker, each at its new place."""
    moved = list(by_broker)
    for broker, one in enumerate(by_broker):
        moved[names[broker]] = one
    return tuple(moved)


def _parts(parts: Parts, names: Names) -> Parts:
    return parts_of(*[part.renamed(names) for part in parts]) if parts else parts


def _fetch(request: FetchRequest, names: Names) -> FetchRequest:
    return evolve(
        request,
        follower=names[request.follower],
        leader=names[request.leader],
        parts=_parts(request.parts, names),
    )


def _response(response: FetchResponse, names: Names) -> FetchResponse:
    return evolve(response, request=_fetch(response.request, names), parts=_parts(response.parts, names))


def _proposal(request: AlterPartitionRequest, names: Names) -> AlterPartitionRequest:
    isr = tuple(sorted((names[broker], epoch) for broker, epoch in request.isr))
    return evolve(request, leader=names[request.leader], isr=isr)


def _outcome(response: AlterPartitionResponse, names: Names) -> AlterPartitionResponse:
    return evolve(response, leader=names[response.leader], isr=renamed_brokers(response.isr, names))


def _network(network: Network, names: Names) -> Network:
    return Network(
        tuple(sorted(_fetch(m, names) for m in network.fetches)),
        tuple(sorted(_response(m, names) for m in network.fetch_responses)),
        tuple(sorted(_proposal(m, names) for m in network.alters)),
        tuple(sorted(_outcome(m, names) for m in network.alter_responses)),
    )


def _metadata(metadata: PartitionMetadata, names: Names) -> PartitionMetadata:
    return evolve(
        metadata,
        leader=_name(metadata.leader, names),
        isr=renamed_brokers(metadata.isr, names),
        parts=_parts(metadata.parts, names),
    )


def _replica(replica: Replica, names: Names) -> Replica:
    remote = [evolve(one, parts=_parts(one.parts, names)) if one.parts else one for one in replica.remote]
    return evolve(
        replica,
        leader=_name(replica.leader, names),
        isr=renamed_brokers(replica.isr, names),
        remote=_moved(remote, names),
        pending_isr=renamed_brokers(replica.pending_isr, names),
        outstanding=tuple(sorted(_fetch(request, names) for request in replica.outstanding)),
        pulled=None if replica.pulled is None else _metadata(replica.pulled, names),
        parts=_parts(replica.parts, names),
    )


def _controller(controller: Controller, names: Names) -> Controller:
    return evolve(
        controller,
        sessions=_moved(controller.sessions, names),
        leader=_name(controller.leader, names),
        isr=renamed_brokers(controller.isr, names),
        elr=renamed_brokers(controller.elr, names),
        last_known_leader=_name(controller.last_known_leader, names),
        parts=_parts(controller.parts, names),
    )
