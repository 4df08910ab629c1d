"""The published KIP-853 model with a rule taken out: what the explorer then finds says what that rule is for."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidegauge.spec.published.kip853.actions import Kip853Action
from tidegauge.spec.published.kip853.machine import Kip853
from tidegauge.spec.published.kip853.messages import AcceptFetchRequestFromObserver
from tidegauge.spec.published.kip853.state import Role, Server, Whereabouts
from tidegauge.spec.published.kraft.state import Message, Position


@attrs.frozen
class CountedAsByTlc(Kip853):
    """Steps as TLC counts them: both alternatives of ValidFetchPosition hold of a fetch from the beginning of a log."""

    def _of_message(self, message: Message, at: Whereabouts) -> Sequence[Kip853Action]:
        found = [*super()._of_message(message, at)]
        fetches = [one for one in found if isinstance(one, AcceptFetchRequestFromObserver)]
        return found + [one for one in fetches if one.message.end == Position()]


@attrs.frozen
class Kip853VotesForAll(Kip853):
    """A voter votes for everybody who asks: two servers lead in one epoch."""

    def is_free_for(self, voter: Server, candidate: int) -> bool:
        return voter.role in (Role.UNATTACHED, Role.VOTED)


@attrs.frozen
class Kip853VotesForShorterLogs(Kip853):
    """A voter votes for a candidate whose log is behind its own: the next leader lacks what was acknowledged."""

    def is_not_behind(self, end: Position, voter: Server) -> bool:
        return True


@attrs.frozen
class Kip853CommitsWithoutMajority(Kip853):
    """A leader commits what it has: the next leader lacks what was acknowledged."""

    def is_replicated(self, servers: int, leader: Server) -> bool:
        return True
