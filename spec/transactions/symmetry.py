"""Partitions are interchangeable, but that of a group's offsets: a state with other names for them.

`spec.kernel.symmetry` says how that is used. Producers are not: the processes of a transactional id follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.actions import Waiting
from tidegauge.spec.transactions.state import (
    AddRequest,
    Coordination,
    Late,
    MarkerRequest,
    Metadata,
    Pending,
    Producer,
    ProduceRequest,
    State,
)

T = TypeVar("T")
R = TypeVar("R", AddRequest, ProduceRequest, MarkerRequest)


def renamed_state(state: State, names: Sequence[int]) -> State:
    """The state in which partition `i` is called `names[i]`."""
    return evolve(
        state,
        partitions=_moved(state.partitions, names),
        producers=tuple(_producer(producer, names) for producer in state.producers),
        coordination=tuple(_coordination(one, names) for one in state.coordination),
        late=Late(
            state.late.inits,
            tuple(sorted(_request(request, names) for request in state.late.adds)),
            tuple(sorted(_request(request, names) for request in state.late.produces)),
            state.late.ends,
            tuple(sorted(_request(request, names) for request in state.late.markers)),
        ),
    )


def _moved(items: Sequence[T], names: Sequence[int]) -> tuple[T, ...]:
    places = {name: place for place, name in enumerate(names)}
    return tuple(items[places[number]] for number in range(len(items)))


def _producer(producer: Producer, names: Sequence[int]) -> Producer:
    return evolve(producer, sequences=_moved(producer.sequences, names), slots=_moved(producer.slots, names))


def _coordination(one: Coordination, names: Sequence[int]) -> Coordination:
    pending = one.pending
    if pending is not None:
        pending = Pending(_metadata(pending.metadata, names), _waiting(pending.waiting, names))
    cached = None if one.cached is None else _metadata(one.cached, names)
    return evolve(one, logged=_metadata(one.logged, names), cached=cached, pending=pending)


def _waiting(request: Waiting | None, names: Sequence[int]) -> Waiting | None:
    match request:
        case AddRequest():
            return _request(request, names)
        case ProduceRequest():
            return _request(request, names)
        case _:
            return request


def _metadata(metadata: Metadata, names: Sequence[int]) -> Metadata:
    return evolve(metadata, partitions=tuple(sorted(names[partition] for partition in metadata.partitions)))


def _request(request: R, names: Sequence[int]) -> R:
    return evolve(request, partition=names[request.partition])
