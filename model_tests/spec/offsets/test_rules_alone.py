"""Rules and properties of groups' offsets asked alone, in states that the small models do not reach."""

from __future__ import annotations

import attrs

from tidegauge.spec.offsets.actions import Commit
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.properties import former_tells_nothing_else, stable_is_decided
from tidegauge.spec.offsets.state import Committed, Entry, Error, Kind, State, Store

VALUE = Entry(0, Kind.OFFSET, producer=1, value=7, time=0)
MARKER = Entry(1, Kind.COMMIT, producer=1)


@attrs.frozen
class AlwaysTells(Offsets):
    """A client that asks for a stable offset is always told one."""

    def fetch_error(self, state: State) -> Error:
        return Error.NONE


def test_a_stable_offset_is_not_told_while_another_one_is_on_its_way() -> None:
    plain = attrs.evolve(VALUE, producer=-1)
    assert not stable_is_decided(AlwaysTells(), State(history=(plain,), applied=0))
    assert stable_is_decided(AlwaysTells(), State(history=(plain,), applied=1))


def test_a_former_coordinator_that_tells_an_offset_tells_that_of_the_coordinator() -> None:
    def told(former: int, now: int) -> bool:
        store, kept = (Store(Committed(place, place, 0)) for place in (now, former))
        return former_tells_nothing_else(State(store=store, former=kept))

    assert told(former=1, now=1)
    assert not told(former=0, now=1)
    assert former_tells_nothing_else(State(store=Store(Committed(1, 1, 0))))


def test_a_marker_is_needed_for_values_of_its_transaction_and_not_for_another_marker() -> None:
    machine = Offsets()
    assert machine.is_needed(MARKER, [VALUE])
    assert not machine.is_needed(MARKER, [MARKER])
    assert not machine.is_needed(MARKER, [attrs.evolve(VALUE, producer=0)])


def test_clients_ask_for_the_times_of_the_machine_alone() -> None:
    machine = Offsets(asked=(2,), is_old_format=True)
    (state,) = machine.initial()
    assert not Commit(retention=2).guard(machine, state)
    assert Commit(retention=1).guard(machine, state) == "no client asks for that time"
