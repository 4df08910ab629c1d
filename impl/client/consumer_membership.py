"""One member of a consumer group (KIP-848), as it knows itself: what it says, and what it makes of responses.

Theory of operation
-------------------
The coordinator says what a member is to own (`assigned`). The member gives back what is not in it, owns what is, and
acknowledges that with its next heartbeat. While it reconciles, its heartbeats say nothing of what it owns. After a
heartbeat without response the next one says all, and asks for all. A member that is fenced owns nothing at once, and
joins again under its id.

The rules are those of `spec.groups.consumer`, under the same names, and this core goes in lockstep with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.assignors.subscription import NO_GENERATION
from tidegauge.impl.client.membership import ENDED, Identity, State

Place = tuple[str, int]
"""A partition: the id of its topic, and the number."""
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""Of a static member that leaves and comes back."""
_FENCING: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


@attrs.frozen
class Heartbeat:
    """What a member says; `full`: all of it, though it may have said so before."""

    epoch: int
    topics: tuple[str, ...]
    expression: str
    """A regular expression of names of topics, which the coordinator resolves; "" for none."""
    owned: tuple[Place, ...] | None
    """None: what it has said before."""
    full: bool

    @property
    def wanted(self) -> tuple[tuple[str, ...], str]:
        """What it subscribes to."""
        return self.topics, self.expression


def is_fenced_by(asked: Heartbeat, error: ErrorCode) -> bool:
    """Whether the coordinator knows no such member any more: with the last one its group may have gone, too.

    Then who has been a member joins again (librdkafka 5485; Kafka's own client gives up). Who joins is told of a group
    that is not there as well, where that is a classic one and stays so: that is for the application.
    """
    return error in _FENCING or (error is ErrorCode.group_id_not_found and asked.epoch > JOINING_EPOCH)


class ConsumerMembership:
    """The core of one member. Nothing here waits: who calls it sends the heartbeats, and asks the application first."""

    def __init__(
        self, member_id: str, topics: Iterable[str], instance_id: str | None = None, expression: str = ""
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.state = State.UNJOINED
        self.epoch = JOINING_EPOCH
        self.topics = tuple(sorted(topics))
        """What it wants."""
        self.expression = expression
        self.asked: tuple[tuple[str, ...], str] = ((), "")
        """What it wanted in its last heartbeat that was responded to."""
        self.owned: tuple[Place, ...] = ()
        self.assigned: tuple[Place, ...] | None = None
        """What it is to own, until it does."""
        self.said: tuple[Place, ...] | None = None
        """What it has said that it owns, in its last heartbeat that was responded to."""
        self.full = True
        """Its next heartbeat says all."""
        self.sent: Heartbeat | None = None
        """The heartbeat whose response it waits for."""

    @property
    def identity(self) -> Identity:
        """Whom a commit is from; without a generation while it is no member."""
        return Identity(self.member_id, self.epoch if self.epoch > JOINING_EPOCH else NO_GENERATION)

    def may_commit(self) -> bool:
        """What it owns it may commit, in whatever epoch it was given it (KIP-1251)."""
        return self.state is State.STABLE

    # --- heartbeats ----------------------------------------------------------------------------------------------

    def heartbeat_request(self) -> Heartbeat | None:
        """What it has to say now; None while it waits for a response, wants nothing, or has ended."""
        joins = self.epoch == JOINING_EPOCH
        if self.state in ENDED or self.sent is not None or (joins and not (self.topics or self.expression)):
            return None
        full = self.full or joins
        is_new = self.assigned is None and self.owned != self.said
        return Heartbeat(self.epoch, self.topics, self.expression, self.owned if full or is_new else None, full)

    def send(self) -> Heartbeat | None:
        """It says that, and waits for the response."""
        self.sent = self.heartbeat_request()
        return self.sent

    def after_response(self, asked: Heartbeat, epoch: int, assignment: Iterable[Place] | None) -> None:
        """It is in this epoch; what it is assigned it is to make its own."""
        if self.sent is not asked:
            return
        self.sent, self.state, self.epoch, self.asked, self.full = None, State.STABLE, epoch, asked.wanted, False
        if asked.owned is not None:
            self.said = asked.owned
        if assignment is not None:
            told = tuple(sorted(assignment))
            self.said = self.said_after_assignment()
            self.assigned = None if told == self.owned else told

    def said_after_assignment(self) -> tuple[Place, ...] | None:
        """Every assignment is acknowledged, though it may be what the member owned before."""
        return None

    def after_error(self, asked: Heartbeat, error: ErrorCode) -> None:
        """One that fences it: it joins again. FENCED_INSTANCE_ID: the end of it. All others are no word about it."""
        if self.sent is not asked:
            return
        if error is ErrorCode.fenced_instance_id:
            self._ends(State.FENCED)
        elif is_fenced_by(asked, error):
            self._joins_again()
            self.owned = self.kept_when_fenced()
        else:
            self.after_loss(asked)

    def kept_when_fenced(self) -> tuple[Place, ...]:
        """What a fenced member owns may be another's already."""
        return ()

    def after_loss(self, asked: Heartbeat) -> None:
        """There was no response: the next heartbeat says all; what is assigned and not owned yet is told again."""
        if self.sent is asked:
            self.sent, self.full, self.assigned = None, True, None

    # --- what it owns --------------------------------------------------------------------------------------------

    def to_give_back(self) -> tuple[Place, ...]:
        """What the application has to let go before the member owns what it is assigned."""
        if self.assigned is None:
            return ()
        kept = frozenset(self.assigned)
        return tuple(each for each in self.owned if each not in kept)

    def gave_back(self, places: Iterable[Place]) -> None:
        """The application has let these go."""
        gone = frozenset(places)
        self.owned = tuple(each for each in self.owned if each not in gone)

    def after_reconciling(self) -> tuple[Place, ...]:
        """It owns what it was assigned; returns what is new. There must be nothing to give back."""
        assert self.assigned is not None, "it owns what it was assigned"
        assert not self.to_give_back(), "it gives back first"
        owned = frozenset(self.owned)
        new = tuple(each for each in self.assigned if each not in owned)
        self.owned, self.assigned = self.assigned, None
        return new

    # --- what its application does -------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], expression: str = "") -> None:
        """It wants these topics from now on."""
        self.topics, self.expression = tuple(sorted(topics)), expression

    def told(self, error: ErrorCode, asked: Identity) -> None:
        """A commit was refused: heartbeats tell what the member is."""

    def leave(self) -> int | None:
        """It goes; the epoch of the heartbeat that says so. A static member says that it comes back."""
        epoch = self._leaving_epoch()
        self._ends(State.LEFT)
        return epoch

    def expired(self) -> int | None:
        """Its application has not polled for too long: it leaves, and joins again when that comes back."""
        epoch = self._leaving_epoch()
        if self.state not in ENDED:
            self._joins_again()
            self.owned = ()
        return epoch

    def _leaving_epoch(self) -> int | None:
        if self.state in ENDED or (self.epoch == JOINING_EPOCH and self.sent is None):
            return None
        return LEAVING_EPOCH if self.instance_id is None else STATIC_LEAVING_EPOCH

    def _joins_again(self) -> None:
        self.state, self.epoch, self.full = State.UNJOINED, JOINING_EPOCH, True
        self.said = self.assigned = self.sent = None

    def _ends(self, state: State) -> None:
        self.state, self.epoch, self.owned, self.asked = state, JOINING_EPOCH, (), ((), "")
        self.said = self.assigned = self.sent = None
