"""The assignors that a consumer may name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidegauge.impl.client.assignors.range import RangeAssignor
from tidegauge.impl.client.assignors.round_robin import RoundRobinAssignor
from tidegauge.impl.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from tidegauge.impl.client.assignors.subscription import Assignor

_ALL: Final[tuple[Assignor, ...]] = (
    RangeAssignor(),
    RoundRobinAssignor(),
    StickyAssignor(),
    CooperativeStickyAssignor(),
)
ASSIGNORS: Final[Mapping[str, Assignor]] = {one.name: one for one in _ALL}


def assignors_of(names: Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    """The assignors with these names, the best one first; one of your own may stand among them.

    Raises ValueError for an unknown name, for none, and for cooperative ones beside eager ones: nobody could tell what
    a member goes on with while it joins.
    """
    found = []
    for name in names:
        if isinstance(name, str) and name not in ASSIGNORS:
            raise ValueError(f"there is no assignor {name!r}: name one of {', '.join(ASSIGNORS)}")
        found.append(ASSIGNORS[name] if isinstance(name, str) else name)
    if not found:
        raise ValueError(f"no assignor is named: name one of {', '.join(ASSIGNORS)}")
    if len({one.is_cooperative for one in found}) > 1:
        named = ", ".join(one.name for one in found)
        raise ValueError(f"the assignors {named} are eager and cooperative: name those of one kind only")
    return tuple(found)
