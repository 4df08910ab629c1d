"""What must hold of a load, whatever the cleaner takes meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.groups.loading.state import Group, Holding, State
from tidegauge.spec.kernel.machine import Invariant


def invariants() -> Mapping[str, Invariant[State]]:
    """What holds in every state."""
    return {
        "LoadGoesOn": load_goes_on,
        "LoadedIsWritten": loaded_is_written,
        "OneOwner": one_owner,
    }


def load_goes_on(state: State) -> bool:
    """No load refuses a record: it would fail for ever, at every broker."""
    return state.load is None or not state.load.is_refused


def loaded_is_written(state: State) -> bool:
    """Once all is read, the group is what the last record of each key says: the one that was written."""
    return state.load is None or bool(state.unread) or state.load.group == state.group


def one_owner(state: State) -> bool:
    """No two members have the partition, or have yet to give it back, once all is read."""
    return owners(state.group) <= 1 and (state.load is None or bool(state.unread) or owners(state.load.group) <= 1)


def converging() -> Mapping[str, Invariant[State]]:
    """What comes about in the end."""
    return {"every load ends": lambda state: state.load is None}


def goals() -> Mapping[str, Invariant[State]]:
    """What a search that proves anything must reach."""
    return {
        "a load has read of two members that have the partition": lambda state: (
            state.load is not None and owners(state.load.group) > 1
        ),
        "a load reads a tombstone of a group that it knows nothing of": reads_of_nothing,
        "a group that is gone is loaded": lambda state: (
            state.load is not None and state.load.position > 0 and state.load.group is None and not state.unread
        ),
    }


def reads_of_nothing(state: State) -> bool:
    """Whether the next record of a load is a tombstone, and it has read nothing of the group."""
    return state.load is not None and state.load.group is None and any(one.value is None for one in state.unread[:1])


def owners(group: Group | None) -> int:
    """How many have the partition."""
    members = () if group is None else group.members
    return sum(one is not None and one.holding is not Holding.NOTHING for one in members)
