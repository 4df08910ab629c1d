"""What becomes of a partition of the transaction log beside requests: elections, loads and resignations, late ones too.

A load goes on in slices, and others ask meanwhile; what comes of an older election, or again, changes nothing. Between
two coordinators nobody is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
from tidegauge.impl.coordinators.transactions.messages import Append, EndTxn, Marker, Outstanding, Respond
from tidegauge.impl.records.slices import at_once

Logged: TypeAlias = tuple[bytes | None, bytes | None]
NOT_KNOWN: Final[tuple[Logged, ...]] = ((None, b"value"), (b"\0\1\0\2id", b"value"), (b"\0\1", None))
"""Records of no id: without a key, and with keys of a version that is not known."""
FUTURE: Final = b"\0\2value"
"""A value of a version that is not known."""


def loaded(core: TransactionCoordinator, name: str, epoch: int, key: bytes, values: Sequence[bytes | None]) -> None:
    """A new coordinator reads the log of one id; loads and elections of former epochs, and of this one, come as well.

    What a later version has written is passed over. The partition has no other id.
    """
    partition = core.partition_of(name)
    core.begin_loading(partition, epoch - 1)
    for another in (epoch - 1, epoch + 1):
        at_once(core.load(partition, another, [(b"no key", None)]))
    for _ in core.load(partition, epoch, [*NOT_KNOWN, *((key, value) for value in values), (key, FUTURE)]):
        assert error_of_any(core, name) is ErrorCode.coordinator_load_in_progress, "it responds while it is loading"
        assert core.outstanding_of(partition, name, 0) == Outstanding(), "it goes by what it has read so far"
        for append in filter(None, core.expired(1 << 60)):
            core.failed(append)
            assert append.partition != partition, "an id is forgotten while the log is read"
    at_once(core.load(partition, epoch, [(b"no key", None)]))
    core.begin_loading(partition, epoch)
    core.resign(partition, epoch - 1)
    core.resign(-1, epoch)
    passed_over = core.partitions[partition].passed_over
    assert passed_over == len(NOT_KNOWN) + 1, f"{passed_over} records are passed over: is another load taken in?"
    assert core.outstanding_of(partition, "another id", 0) == Outstanding(), "there is something to do for nobody"
    assert error_of_any(core, "") is ErrorCode.invalid_request, "it responds to who names no id"


def replaced(core: TransactionCoordinator, name: str, epoch: int, pending: Append[object] | None, now_ms: int) -> None:
    """Another broker is elected in this leader epoch, and begins to read the log; what was pending is nobody's then.

    Every other time its own process has led before, and has resigned.
    """
    partition = core.partition_of(name)
    over = Marker(name, partition, epoch - 1, 0, 0, is_commit=True, transaction_version=0, partitions=frozenset())
    markers = (over, *_markers_on_their_way(core, partition, name, now_ms))
    if epoch % 2:
        core.resign(partition, None if epoch % 4 == 1 else epoch - 1)
        assert partition not in core.partitions, "it does not lead any more, and does not know it"
        assert error_of_any(core, name) is ErrorCode.not_coordinator, "it responds, and does not coordinate the id"
        assert core.outstanding_of(partition, name, now_ms) == Outstanding(), "it goes on with what another one does"
        assert not any(map(core.unmarked, markers)), "it waits for markers of who has resigned"
        at_once(core.load(partition, epoch - 1, []))
        _refuses(core, pending, now_ms)
    core.begin_loading(partition, epoch)
    assert not any(map(core.unmarked, markers)), "it waits for markers of a former coordinator"
    _refuses(core, pending, now_ms)


def _markers_on_their_way(core: TransactionCoordinator, partition: int, name: str, now_ms: int) -> Sequence[Marker]:
    outstanding = core.outstanding_of(partition, name, now_ms)
    for append in outstanding.appends:
        core.failed(append)
    assert all(map(core.unmarked, outstanding.markers)), "it does not wait for a marker that it has outstanding"
    return outstanding.markers


def _refuses(core: TransactionCoordinator, pending: Append[object] | None, now_ms: int) -> None:
    if pending is not None:
        core.failed(pending)
        assert core.committed(pending, now_ms).error is ErrorCode.not_coordinator, "it takes in another one's record"


def error_of_any(core: TransactionCoordinator, name: str) -> ErrorCode:
    """The error that every request for an id has, as long as nobody may look at it."""
    ended = core.end(EndTxn(name, 0, 0, is_commit=True), 0)
    return ended.response.error if isinstance(ended, Respond) else ErrorCode.none


def stops_where_it_has_resigned(core: TransactionCoordinator) -> None:
    """Between two steps of looking for what nobody has used for long another broker may be elected for all the rest."""
    partitions = core.partitions
    core.partitions = deepcopy(partitions)
    steps = core.expired(1 << 60)
    next(steps, None)
    for partition in partitions:
        core.resign(partition)
    assert not list(steps), "it goes on after it has resigned"
    core.partitions = partitions


def forgets_each_once(core: TransactionCoordinator, now_ms: int) -> None:
    """Between two steps of looking for what nobody has used for long others may forget it: it is gone then."""
    partitions = core.partitions
    core.partitions = deepcopy(partitions)
    for partition in core.partitions.values():
        for name, known in list(partition.ids.items()):
            partition.ids[f"{name} too"] = deepcopy(known)
    steps = core.expired(1 << 60)
    ended = [*filter(None, (next(steps, None),)), *filter(None, core.expired(1 << 60))]
    for append in ended:
        assert core.committed(append, now_ms).error is ErrorCode.none, "it is the first that forgets the id"
    again = list(filter(None, steps))
    assert not again, f"{again} are forgotten twice"
    core.partitions = partitions
