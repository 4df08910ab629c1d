"""The log lines of consumer groups (KIP-848): what operators may want to know of epochs and members."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidegauge.impl.coordinators.groups.consumer.state import STABLE
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.server.broker.group_lines import LONGEST_TEXT, MOST_LINES

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerWrite
    from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember

LOGGER: Final = logging.getLogger(__name__)
EXPIRED: Final = "no heartbeat came in its session, or it has not given its partitions back in time"


class ConsumerGroupLines:
    """Tells of the consumer groups of one broker."""

    def __init__(self) -> None:
        self._lines = RepeatedLines(most=MOST_LINES)

    def written(self, write: ConsumerWrite, *, is_expiry: bool) -> None:
        """A line for each change that is in the log; `is_expiry`: time has removed who is gone."""
        before, after = write.before, write.after
        old, new = _members(before), _members(after)
        came, went = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
        replaced = {} if before is None else {new[one].instance_id: one for one in came if new[one].instance_id}
        for member in went:
            successor = replaced.get(old[member].instance_id)
            if successor is not None:
                why = f"it has come again, as {successor}"
                self._tell(logging.INFO, "static member replaced", write, after, member=member, why=why)
            elif is_expiry:
                self._tell(logging.INFO, "group member expired", write, after, member=member, why=EXPIRED)
            else:
                self._tell(logging.DEBUG, "group member left", write, after, member=member)
        for member in came:
            self._tell(logging.DEBUG, "group member joined", write, after, member=member)
        if after is None:
            return
        if after.epoch > (0 if before is None else before.epoch):
            self._tell(logging.INFO, "group rebalances", write, after, why=_why(came, went))
        if after.members and after.state == STABLE and (before is None or before.state != STABLE):
            self._tell(logging.INFO, "group stable", write, after)
        if old and not new:
            self._tell(logging.INFO, "group empty", write, after)

    def not_written(self, write: ConsumerWrite) -> None:
        """The log has not taken what was decided."""
        self._tell(logging.WARNING, "group not written", write, write.after, why="its members try again")

    def _tell(
        self,
        level: int,
        event: str,
        write: ConsumerWrite,
        group: ConsumerGroup | None,
        *,
        member: str = "",
        why: str = "",
    ) -> None:
        self._lines.log_event(
            LOGGER,
            level,
            event,
            group=write.group_id[:LONGEST_TEXT],
            epoch=None if group is None else group.epoch,
            member=member[:LONGEST_TEXT] or None,
            members=len(_members(group)) or None,
            why=why[:LONGEST_TEXT] or None,
        )


def _members(group: ConsumerGroup | None) -> dict[str, ConsumerMember]:
    return {} if group is None else dict(group.members)


def _why(came: list[str], went: list[str]) -> str:
    """Why a new epoch begins."""
    if came:
        return f"{came[0]} joins"
    return f"{went[0]} is gone" if went else "a subscription has changed, or a topic"
