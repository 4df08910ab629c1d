"""Members of one classic group, and its coordinator: the driver is the shell, and the clock.

Requests are named by their tokens: texts. `responses` has the responses that each has got.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.coordinator import ClassicGroups
from tidegauge.impl.coordinators.groups.classic.messages import (
    GroupWrite,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    Leaving,
    Moment,
    Note,
    Noted,
    Outcome,
    SyncGroup,
)
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, Protocol
from tidegauge.impl.coordinators.groups.classic.turn import ClassicLimits
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata

WALL_MS = 1_000_000
SESSION_MS, REBALANCE_MS, DELAY_MS = 10_000, 60_000, 3_000
RANGE = (Protocol("range", b"r"),)


class Members:
    """A group `g` at its coordinator."""

    def __init__(self, **limits: int) -> None:
        self.core = ClassicGroups(ClassicLimits(**limits))
        self.now_ms = 0
        self.responses: dict[str, Any] = {}
        self.writes: list[GroupWrite] = []
        self.log: list[GroupMetadata] = []
        self._notes: list[Note] = []
        self._given = 0

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms)

    @property
    def group(self) -> ClassicGroup:
        group = self.core.get("g")
        assert group is not None
        return group

    @property
    def state(self) -> tuple[str, int, set[str]]:
        """The state, the generation and the members."""
        return self.group.state.value, self.group.generation, set(self.group.members)

    def take(self, outcome: Outcome) -> Outcome:
        """Do what a call says."""
        for token, response in outcome.responses:
            assert token not in self.responses, f"{token} has its response"
            self.responses[str(token)] = response
        self.writes += outcome.writes
        self._notes += outcome.notes
        return outcome

    def noted(self) -> list[tuple[Noted, int, str, int]]:
        """What operators were told since the last call: what, in which generation, of which member, of how many."""
        notes, self._notes = self._notes, []
        return [(one.what, one.generation, one.member, one.members) for one in notes]

    def after(self, ms: int) -> None:
        """Time passes, and each deadline is met in it."""
        end = self.now_ms + ms
        while (due := self.core.next_deadline()) is not None and due <= end:
            self.now_ms = max(due, self.now_ms)
            for outcome in self.core.time_passed(self.now):
                self.take(outcome)
        self.now_ms = end

    # --- requests ------------------------------------------------------------------------------------------------

    def join(self, token: str, member_id: str = "", **fields: Any) -> JoinResponse | None:
        """A JoinGroup; its response, if it has one now."""
        self._given += 1
        values: dict[str, Any] = {
            "protocol_type": "consumer",
            "protocols": RANGE,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "client_id": token,
            "unique": str(self._given),
        }
        request = JoinGroup("g", member_id=member_id, **{**values, **fields})
        self.take(self.core.join(request, token, self.now))
        return self.responses.get(token)

    def sync(self, token: str, member_id: str, generation: int | None = None, **fields: Any) -> Any:
        generation = self.group.generation if generation is None else generation
        self.take(self.core.sync(SyncGroup("g", generation, member_id, **fields), token, self.now))
        return self.responses.get(token)

    def heartbeat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> ErrorCode:
        generation = self.group.generation if generation is None else generation
        return self.core.heartbeat(Heartbeat("g", generation, member_id, instance_id), self.now)

    def leave(self, token: str, *members: Leaving) -> Any:
        self.take(self.core.leave(LeaveGroup("g", members), token, self.now))
        return self.responses.get(token)

    # --- the log -------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """All that was appended is committed."""
        while self.writes:
            write = self.writes.pop(0)
            self.log.append(write.metadata)
            self.take(self.core.written(write, self.now))

    def refuse(self, error: ErrorCode) -> None:
        """All that was appended is refused."""
        while self.writes:
            self.take(self.core.failed(self.writes.pop(0), error, self.now))

    def reload(self) -> None:
        """Another broker coordinates the group."""
        self.take(self.core.unload())
        assert not self.core.groups
        self.core = ClassicGroups(self.core.limits)
        self.take(self.core.load("g", self.log[-1], self.now))

    # --- ways to a state -----------------------------------------------------------------------------------------

    def given(self, name: str, **fields: Any) -> str:
        """The id that a dynamic member is given; its client id is its name."""
        response = self.join(f"{name} asks", client_id=name, **fields)
        assert response is not None
        assert response.error is ErrorCode.member_id_required
        return response.member_id

    def joining(self, *names: str, **fields: Any) -> list[str]:
        """Members that join the group, with their ids; each request is named after its member."""
        ids = [self.given(name, **fields) for name in names]
        for name, member_id in zip(names, ids, strict=True):
            self.join(name, member_id, client_id=name, **fields)
        return ids

    def stable(self, *names: str, **fields: Any) -> list[str]:
        """A stable group of one generation; the first one leads, and everybody is assigned its own name."""
        ids = self.joining(*names, **fields)
        self.after(2 * DELAY_MS)
        assigned = tuple((member_id, name.encode()) for name, member_id in zip(names, ids, strict=True))
        for name, member_id in zip(names[1:], ids[1:], strict=True):
            self.sync(f"{name} syncs", member_id)
        self.sync(f"{names[0]} syncs", ids[0], assignments=assigned)
        self.commit()
        assert self.state == ("Stable", 1, set(ids))
        return ids
