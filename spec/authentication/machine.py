"""One connection's authentication: who is let in by SASL, for how long, and as whom (KIP-43, KIP-152, KIP-368).

A client says by which mechanism it means to authenticate (handshake), proves who it is, and is served until its session
has expired; before that it may prove it again, on the same connection, as the same user by the same mechanism. A client
that does anything else is cut off. Nothing is said of what a proof is: `Prove(None)` is one that fails.

Time is counted from a session's beginning. A session expires after `lifetime`, 0 being never, and cannot be renewed in
its first unit of time.

A peer may send anything at any time; of such a one it is asked that a session which it does not renew ends. One that is
`well_behaved` does what is asked of it, knows who it is and proves its session again in time: it stays connected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled, StepInvariant
from tidegauge.spec.kernel.meaning import says


class Phase(Enum):
    """What a connection waits for."""

    HANDSHAKE = "handshake"
    PROOF = "proof"
    REQUESTS = "requests"
    CLOSED = "closed"


class Outcome(Enum):
    """What became of the last message."""

    NONE = "none"
    HANDLED = "handled"
    """It was a step of authentication."""
    PASSED = "passed"
    """It was passed on as a request."""
    CLOSED = "closed"


@attrs.frozen
class Session:
    """A connection."""

    phase: Phase = Phase.HANDSHAKE
    user: int | None = None
    """Who the peer has proved to be; None before it has."""
    mechanism: int | None = None
    """By which mechanism it first did."""
    claimed: int | None = None
    """The mechanism of the proof that is awaited."""
    age: int = 0
    """Since the last proof; it does not go beyond the lifetime."""
    outcome: Outcome = Outcome.NONE


@attrs.frozen
class AskVersions(Action):
    """The one request that an unauthenticated client may make."""


@attrs.frozen
class Shake(Action):
    """A handshake that names a mechanism; one beyond those of the machine is not enabled at the server."""

    mechanism: int


@attrs.frozen
class Prove(Action):
    """A proof of being a user, or of nothing."""

    user: int | None


@attrs.frozen
class Ask(Action):
    """Any other request."""


@attrs.frozen
class TimePasses(Action):
    """One unit."""


@attrs.frozen
class Authentication(Machine[Session]):
    """The gate of one connection, and a peer that may send anything at any time."""

    action_types: ClassVar[tuple[type[Action], ...]] = (AskVersions, Shake, Prove, Ask, TimePasses)
    users: int = 2
    mechanisms: int = 2
    lifetime: int = 3
    """Units of time; 0 is for ever."""
    well_behaved: bool = False
    """Whether the peer does nothing but what a client does that may be served."""

    def initial(self) -> Iterable[Session]:
        return (Session(),)

    def actions(self, state: Session) -> Iterator[Action]:
        if state.phase is Phase.CLOSED:
            return
        if self.well_behaved:
            yield from self.proper(state)
            return
        yield AskVersions()
        yield Ask()
        yield from (Shake(mechanism) for mechanism in range(self.mechanisms + 1))
        yield from (Prove(user) for user in (None, *range(self.users)))
        if state.user is not None and state.age < self.lifetime:
            yield TimePasses()

    def proper(self, state: Session) -> Iterator[Action]:
        """What a client does that is one of the users, and renews its session when it can, as the protocol says."""
        match state.phase:
            case Phase.HANDSHAKE:
                yield AskVersions()
                yield from (Shake(mechanism) for mechanism in range(self.mechanisms))
            case Phase.PROOF if state.user is None:
                yield from (Prove(user) for user in range(self.users))
            case Phase.PROOF:
                yield Prove(state.user)
            case _:
                if not Authentication.expired(self, state):
                    yield Ask()
                if Authentication.may_renew(self, state) and state.mechanism is not None:
                    yield Shake(state.mechanism)
                if state.age < self.lifetime:
                    yield TimePasses()

    def is_fair(self, before: Session, action: Action, after: Session) -> bool:
        """Time passes, and what a well-behaved peer does it does in the end; any other one asks, and renews nothing."""
        return self.well_behaved or isinstance(action, Ask | TimePasses)

    def step(self, state: Session, action: Action) -> Session:
        if state.phase is Phase.CLOSED:
            raise NotEnabled(action, "the connection is open")
        if self.well_behaved and action not in self.proper(state):
            raise NotEnabled(action, "a well-behaved peer does so")
        match action:
            case AskVersions():
                return self._request(state, unauthenticated_may=True)
            case Ask():
                return self._request(state, unauthenticated_may=False)
            case Shake(mechanism):
                return self._shake(state, mechanism)
            case Prove(user):
                return self._prove(state, user)
            case TimePasses() if state.user is not None and state.age < self.lifetime:
                return evolve(state, age=state.age + 1, outcome=Outcome.NONE)
        raise NotEnabled(action, "a session is running")

    def _request(self, state: Session, *, unauthenticated_may: bool) -> Session:
        told = unauthenticated_may and state.phase is Phase.HANDSHAKE
        if told or (state.phase is Phase.REQUESTS and not self.expired(state)):
            return evolve(state, outcome=Outcome.PASSED)
        return self.close(state)

    def _shake(self, state: Session, mechanism: int) -> Session:
        if state.phase is Phase.REQUESTS and not self.may_renew(state):
            return self._request(state, unauthenticated_may=False)
        if state.phase is Phase.PROOF or mechanism >= self.mechanisms:
            return self.close(state)
        return evolve(state, phase=Phase.PROOF, claimed=mechanism, outcome=Outcome.HANDLED)

    def _prove(self, state: Session, user: int | None) -> Session:
        if state.phase is not Phase.PROOF:
            return self._request(state, unauthenticated_may=False)
        if user is None or not self.admits(state, user):
            return self.close(state)
        return Session(Phase.REQUESTS, user, state.claimed, None, 0, Outcome.HANDLED)

    def expired(self, state: Session) -> bool:
        """Whether a session is over."""
        return 0 < self.lifetime <= state.age

    def may_renew(self, state: Session) -> bool:
        """Whether a session may be renewed now."""
        return self.lifetime > 0 and state.age >= 1

    def admits(self, state: Session, user: int) -> bool:
        """Whether somebody who has proved to be `user` may be it on this connection."""
        return state.user is None or (state.user, state.mechanism) == (user, state.claimed)

    def close(self, state: Session) -> Session:
        """The connection's end; who it belonged to is kept for the reader of a trace."""
        return evolve(state, phase=Phase.CLOSED, claimed=None, outcome=Outcome.CLOSED)

    @property
    def invariants(self) -> Mapping[str, Invariant[Session]]:
        return {
            "OnlyTheProvedAreServed": says(
                "Requests are taken only of somebody who has proved who it is.",
                lambda state: state.phase is not Phase.REQUESTS or state.user is not None,
            )
        }

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Session]]:
        return {
            "NoUnauthenticatedClientIsServed": says(
                "A request passes only if its sender had proved who it is.",
                lambda before, action, after: (
                    not isinstance(action, Ask) or after.outcome is not Outcome.PASSED or before.user is not None
                ),
            ),
            "NothingIsServedAfterExpiry": says(
                "Nothing passes in a session that is over (KIP-368).",
                lambda before, action, after: (
                    after.outcome is not Outcome.PASSED or not 0 < self.lifetime <= before.age
                ),
            ),
            "ThePrincipalNeverChanges": says(
                "Who a connection belongs to never changes (KIP-368).",
                lambda before, action, after: before.user in (None, after.user),
            ),
            "TheMechanismNeverChanges": says(
                "Nor does the mechanism by which that was proved.",
                lambda before, action, after: before.mechanism in (None, after.mechanism),
            ),
        }

    @property
    def converges(self) -> Mapping[str, Invariant[Session]]:
        if self.well_behaved:
            return {
                "a client that does what is asked of it is let in, and stays": lambda state: (
                    state.user is not None and state.phase is not Phase.CLOSED
                )
            }
        return {
            "a session that is not renewed ends": lambda state: state.phase is Phase.CLOSED or self.lifetime == 0,
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[Session]]:
        return {
            "somebody is served": lambda state: state.user is not None and state.outcome is Outcome.PASSED,
            "a session is renewed": lambda state: state.phase is Phase.PROOF and state.user is not None,
            "a session expires": lambda state: state.phase is Phase.REQUESTS and self.expired(state),
        }
