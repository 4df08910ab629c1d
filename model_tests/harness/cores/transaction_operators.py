"""What operators ask of the transaction coordinator, of one id and of all, beside the specification's state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
from tidegauge.impl.coordinators.transactions.messages import TransactionFilter
from tidegauge.impl.records.slices import at_once
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.machine import Transactions


class Asked(Protocol):
    """A coordinator beside the machine."""

    machine: Transactions
    coordinator: TransactionCoordinator
    names: list[str]
    """The transactional ids, in the order of the state."""
    now_ms: int


def described(cores: Asked, expected: spec.State) -> Iterator[Change]:
    """Of one id: an id that has no record is not found, and who names none is told so."""
    for name, one in zip(cores.names, expected.coordination, strict=True):
        wanted = ErrorCode.none
        if one.cached is None:
            wanted = ErrorCode.coordinator_load_in_progress
        elif one.cached == spec.Metadata():
            wanted = ErrorCode.transactional_id_not_found
        if (found := cores.coordinator.describe(name).error) is not wanted:
            yield Change(f"description of {name}", wanted.name, found.name)
    if (found := cores.coordinator.describe("").error) is not ErrorCode.invalid_request:
        yield Change("description of no id", ErrorCode.invalid_request.name, found.name)


def listed(cores: Asked, expected: spec.State) -> Iterator[Change]:
    """Of all ids: each that has a record, in its state."""
    told = at_once(cores.coordinator.list_transactions(TransactionFilter(), cores.now_ms))
    if any(one.cached is None for one in expected.coordination):
        if told.error is not ErrorCode.coordinator_load_in_progress:
            yield Change("listed", "COORDINATOR_LOAD_IN_PROGRESS", told)
        return
    known = zip(cores.names, expected.coordination, strict=True)
    wanted = {
        name: (one.cached.status.name.replace("_", "").lower(), cores.machine.ongoing(one.cached)[0])
        for name, one in known
        if one.cached not in (None, spec.Metadata())
    }
    found = {one.transactional_id: (one.state.lower(), one.producer_id) for one in told.transactions}
    if found != wanted:
        yield Change("listed", wanted, found)
