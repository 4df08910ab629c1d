"""What coordinators of groups decide, held against the machines that `harness.registry` has a follower for.

Each follower takes in every event of a trace, and goes by those that it is about: decisions of its own kind, which
brokers end, and which leader epochs of `__consumer_offsets` begin and end. The first event that one of them cannot
take for steps of its machine ends the validation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import attrs

from tidegauge.impl.server.trace import groups
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.kernel.machine import Action

T = TypeVar("T")


class Logged(Generic[T]):
    """What the log has of a group: what is committed, and what was written since and nobody knows to be committed."""

    def __init__(self) -> None:
        self._committed: T | None = None
        self._later: list[T | None] = []
        """None is the tombstone of the group."""

    @property
    def committed(self) -> T | None:
        return self._committed

    @property
    def later(self) -> Sequence[T | None]:
        return self._later

    @property
    def may_be_gone(self) -> bool:
        """Whether a coordinator that loads the log may find nothing of the group."""
        return self.committed is None or None in self.later

    @property
    def candidates(self) -> list[T]:
        """What a coordinator may find that loads the log, from the oldest on."""
        return [one for one in (self.committed, *self.later) if one is not None]

    def write(self, *entries: T | None) -> None:
        """These are on their way into the log."""
        self._later += entries

    def replace_last(self, entry: T) -> None:
        """What was written last is another entry."""
        self._later[-1] = entry

    def commit(self, entry: T | None) -> None:
        """An entry is committed, and all before it are past."""
        self._committed = entry
        if entry in self._later:
            del self._later[: self._later.index(entry) + 1]


class Follower(Protocol):
    """Follows all coordinators of one cluster by the rules of one machine."""

    actions: Counter[str]
    """Which decisions were taken for steps of the machine."""

    def follow(self, event: TraceEvent) -> None:
        """Take in one event. Raises Wrong."""


@attrs.frozen
class GroupAt:
    """What the specification has of a group at one coordinator, in one leader epoch."""

    node: int
    leader_epoch: int
    group: Any
    """The `Group` of the machine that follows it."""
    names: Any
    """Which number there is whose: `Names`, or `ConsumerNames`."""
    possible: Callable[[Any], list[tuple[Action, Any]]]
    """Time-outs and departures that may come to a group here, each with the group after it."""


class Committed(NamedTuple):
    """What the log has of a group."""

    group: Any
    """The group, or its record, of the machine that follows it."""
    names: Any
    """As in `GroupAt`."""


@runtime_checkable
class FollowsGroups(Protocol):
    """A follower that knows whole groups, and not just what is asked of them."""

    def at_coordinators(self, group: str) -> Iterator[GroupAt]:
        """The group at every coordinator that has it; nothing of a group that another machine follows."""

    def committed(self, group: str) -> Committed | None:
        """What of the group is committed, as far as anybody has told; None for nothing, or no such group."""


Begin: TypeAlias = Callable[[], Follower]
"""Makes a follower, of a cluster that has not begun."""


@attrs.frozen
class ValidatedGroups:
    """How far the decisions of the coordinators of groups are steps of the specification."""

    matched: int
    events: int
    actions: Mapping[str, Counter[str]]
    """By machine: which decisions were taken for steps of it."""
    mismatch: str | None

    @property
    def holds(self) -> bool:
        return self.mismatch is None

    def __str__(self) -> str:
        if self.mismatch is None:
            return f"groups: all {self.events} decisions are actions of the specification"
        return f"groups: decision {self.matched + 1} is no action of the specification:\n{self.mismatch}"


def validate_group_coordinators(trace: Sequence[TraceEvent], followers: Mapping[str, Begin]) -> ValidatedGroups:
    """Validate the decisions of all coordinators of groups in a trace. `followers`: by machine."""
    following = Following(followers)
    matched, mismatch = 0, None
    of_groups = sum(isinstance(event.decision, groups.OfGroups) for event in trace)
    for place, event in enumerate(trace):
        if why := following.refusal(event):
            mismatch = f"event {place} ({event}): {why}"
            break
        matched += isinstance(event.decision, groups.OfGroups)
    return ValidatedGroups(matched, of_groups, following.actions, mismatch)


class Following:
    """A follower of each machine, for the events of one cluster from its beginning on."""

    def __init__(self, followers: Mapping[str, Begin]) -> None:
        self._following = {machine: begin() for machine, begin in followers.items()}

    def refusal(self, event: TraceEvent) -> str:
        """Why the next event is no step of a machine; "" if it is, wherever it has to be. After that ask no more."""
        for machine, follower in self._following.items():
            try:
                follower.follow(event)
            except Wrong as wrong:
                return f"{machine}: {wrong}"
        return ""

    @property
    def actions(self) -> Mapping[str, Counter[str]]:
        """By machine: which decisions were taken for steps of it."""
        return {machine: follower.actions for machine, follower in self._following.items()}

    def at_coordinators(self, group: str) -> list[GroupAt]:
        """A group at every coordinator that has it, by broker."""
        found = [one for each in self._knowing for one in each.at_coordinators(group)]
        return sorted(found, key=lambda one: (one.node, one.leader_epoch))

    def committed(self, group: str) -> Committed | None:
        """What of a group is committed, as far as anybody has told; None for nothing."""
        return next((one for each in self._knowing if (one := each.committed(group)) is not None), None)

    @property
    def _knowing(self) -> list[FollowsGroups]:
        return [one for one in self._following.values() if isinstance(one, FollowsGroups)]
