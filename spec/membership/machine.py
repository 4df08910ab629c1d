"""A broker, its files, and the controller that it meets: nothing is deleted on hearsay (KIP-631, KIP-858, KIP-595).

The controller's log is a list of decisions: topics are created and deleted. A broker reads it from its beginning at
each start, makes a replica for each topic, and deletes the replica of a topic that a decision has deleted. Things go
wrong: the controller loses the end of its log and goes on without it, another cluster's controller is met in its place,
the broker dies at any time, and what it has noted of the log is lost.

Three rules keep data: a broker joins its own cluster only (`may_join`); it reads on only in the log that it has read
before (`is_same_log`); and a replica that the log does not explain is kept as a stray (`departure`). Each is a method,
so that a bug may override it. Where the note is lost as well as the log's end, the last rule alone stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled, StepInvariant
from tidegauge.spec.kernel.meaning import says

OURS, THEIRS = 0, 1
"""The two clusters."""


class Departure(Enum):
    """What becomes of a replica whose topic the log does not have."""

    DELETED = "deleted"
    STRAY = "kept as a stray"


@attrs.frozen(order=True)
class Decision:
    """A record of the controller's log: a topic was created or deleted, by the controller of an epoch."""

    topic: int
    created: bool
    epoch: int


@attrs.frozen
class World:
    """The controllers, and one broker."""

    log: tuple[Decision, ...] = ()
    """Of the broker's own cluster."""
    epoch: int = 0
    met: int = OURS
    """Whose controller is at the address that the broker knows."""
    running: bool = True
    refused: bool = False
    """The broker has ended, since what it met is not what it belongs to."""
    read: tuple[Decision, ...] | None = None
    """What this process has read; None before it has."""
    noted: tuple[Decision, ...] = ()
    """What it and the processes before it have noted as read."""
    replicas: frozenset[int] = frozenset()
    strays: frozenset[int] = frozenset()
    destroyed: frozenset[int] = frozenset()
    """Topics of which the broker has deleted data."""
    deleted: frozenset[int] = frozenset()
    """Topics that were ever deleted by a decision that was acknowledged."""
    losses: int = 0


def created_in(log: tuple[Decision, ...]) -> frozenset[int]:
    """The topics that a log creates and does not delete; none is created twice."""
    deleted = {decision.topic for decision in log if not decision.created}
    return frozenset(decision.topic for decision in log if decision.created) - deleted


def goes_on_from(noted: tuple[Decision, ...], log: tuple[Decision, ...]) -> bool:
    """Whether a log has what was noted: it is as long, and its record there is of the same epoch."""
    if not noted:
        return True
    return len(log) >= len(noted) and log[len(noted) - 1].epoch == noted[-1].epoch


@attrs.frozen
class Create(Action):
    """The controller creates a topic."""

    topic: int


@attrs.frozen
class Delete(Action):
    """The controller deletes a topic."""

    topic: int


@attrs.frozen
class LoseTail(Action):
    """The controller's disk loses the last decision, and a new controller goes on from there."""


@attrs.frozen
class LoseNote(Action):
    """The broker's note of what it has read is lost while it is down."""


@attrs.frozen
class Meet(Action):
    """From now on the controller of this cluster is at the address."""

    cluster: int


@attrs.frozen
class Crash(Action):
    """The broker's process dies."""


@attrs.frozen
class Start(Action):
    """A new process of the broker: it knows what is on its disk."""


@attrs.frozen
class Pull(Action):
    """The broker reads the log that it meets to its end, and acts on it."""


@attrs.frozen
class Membership(Machine[World]):
    """A broker that belongs to `OURS`, and what it meets."""

    action_types: ClassVar[tuple[type[Action], ...]] = (
        Create,
        Delete,
        LoseTail,
        LoseNote,
        Meet,
        Crash,
        Start,
        Pull,
    )
    topics: int = 2
    losses: int = 2
    """How often the log's end, or the note, is lost."""

    def initial(self) -> Iterable[World]:
        return (World(),)

    def actions(self, state: World) -> Iterator[Action]:
        candidates: list[Action] = [LoseTail(), LoseNote(), Meet(OURS), Meet(THEIRS), Crash(), Start(), Pull()]
        candidates += [kind(topic) for topic in range(self.topics) for kind in (Create, Delete)]
        return (action for action in candidates if not self.guard(state, action))

    def guard(self, state: World, action: Action) -> str:
        """Why the action is not enabled; "" when it is."""
        match action:
            case Create(topic):
                return "" if topic not in self.known(state.log) | state.deleted else f"there was a topic {topic}"
            case Delete(topic):
                return "" if topic in self.known(state.log) else f"there is no topic {topic}"
            case LoseTail():
                return "" if state.log and state.losses < self.losses else "nothing more is lost"
            case LoseNote():
                lost = not state.running and state.noted and state.losses < self.losses
                return "" if lost else "no note is lost"
            case Meet(cluster):
                return "" if cluster != state.met else "it is there already"
            case Crash():
                return "" if state.running else "the broker is down"
            case Start():
                return "the broker runs" if state.running else ""
            case Pull():
                return "" if state.running and (state.met, state.read) != (OURS, state.log) else "it has read all"
        raise NotImplementedError(action)

    def step(self, state: World, action: Action) -> World:
        if reason := self.guard(state, action):
            raise NotEnabled(action, reason)
        match action:
            case Create(topic):
                return evolve(state, log=(*state.log, Decision(topic, True, state.epoch)))
            case Delete(topic):
                log = (*state.log, Decision(topic, False, state.epoch))
                return evolve(state, log=log, deleted=state.deleted | {topic})
            case LoseTail():
                return evolve(state, log=state.log[:-1], epoch=state.epoch + 1, losses=state.losses + 1)
            case LoseNote():
                return evolve(state, noted=(), losses=state.losses + 1)
            case Meet(cluster):
                return evolve(state, met=cluster)
            case Crash():
                return evolve(state, running=False, read=None)
            case Start():
                return evolve(state, running=True, refused=False)
        assert isinstance(action, Pull), "the guard knows no other"
        return self._pulled(state)

    def _pulled(self, state: World) -> World:
        log = state.log if state.met == OURS else ()
        if not self.may_join(state) or not self.is_same_log(state.noted, log):
            return evolve(state, running=False, refused=True, read=None)
        known = self.known(log)
        gone = {topic: self.departure(log, topic) for topic in state.replicas - known}
        destroyed = {topic for topic, departure in gone.items() if departure is Departure.DELETED}
        return evolve(
            state,
            read=log,
            noted=log,
            replicas=frozenset(known),
            strays=state.strays | (gone.keys() - destroyed),
            destroyed=state.destroyed | destroyed,
        )

    def is_fair(self, before: World, action: Action, after: World) -> bool:
        """The broker is started and reads, and its own controller is back at the address."""
        return isinstance(action, Start | Pull) or action == Meet(OURS)

    # --- the rules -----------------------------------------------------------------------------------------------

    def known(self, log: tuple[Decision, ...]) -> frozenset[int]:
        """The topics that a log has."""
        found: set[int] = set()
        for decision in log:
            (found.add if decision.created else found.discard)(decision.topic)
        return frozenset(found)

    def may_join(self, state: World) -> bool:
        """A broker joins the cluster that its directories belong to."""
        return state.met == OURS

    def is_same_log(self, noted: tuple[Decision, ...], log: tuple[Decision, ...]) -> bool:
        """Whether a log goes on from what was noted: it is as long, and its record there is of the same epoch."""
        return goes_on_from(noted, log)

    def departure(self, log: tuple[Decision, ...], topic: int) -> Departure:
        """A replica is deleted if the log has deleted its topic; one that the log does not explain is kept."""
        return Departure.DELETED if any(d.topic == topic and not d.created for d in log) else Departure.STRAY

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def invariants(self) -> Mapping[str, Invariant[World]]:
        return {
            "NothingIsDeletedOnHearsay": says(
                "What is gone from the disk, the log has deleted.", lambda state: state.destroyed <= state.deleted
            ),
            "WhatWasCreatedIsThere": says(
                "A broker has a replica of each topic that the log which it has read has created.",
                lambda state: state.read is None or created_in(state.read) <= state.replicas,
            ),
        }

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[World]]:
        return {
            "ARefusalTouchesNothing": says(
                "A broker that refuses a cluster leaves every file as it was.",
                lambda before, action, after: (
                    not after.refused
                    or before.refused
                    or (before.replicas, before.strays, before.noted) == (after.replicas, after.strays, after.noted)
                ),
            ),
            "NoReplicaVanishes": says(
                "A replica stays, becomes a stray, or is deleted.",
                lambda before, action, after: before.replicas <= after.replicas | after.strays | after.destroyed,
            ),
            "AnotherClusterChangesNothing": says(
                "What the log of another cluster says changes no replica.",
                lambda before, action, after: (
                    not isinstance(action, Pull) or before.met == OURS or after.replicas == before.replicas
                ),
            ),
            "ALogThatHasLostWhatWasReadIsNoNews": says(
                "A log is followed only if it begins with what was read of it before.",
                lambda before, action, after: (
                    not isinstance(action, Pull)
                    or after.read is None
                    or after.read[: len(before.noted)] == before.noted
                ),
            ),
        }

    @property
    def converges(self) -> Mapping[str, Invariant[World]]:
        return {
            "a broker has read its own cluster's log, unless that has lost what was read": lambda state: (
                (state.running and state.read == state.log) or not goes_on_from(state.noted, state.log)
            ),
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[World]]:
        return {
            "a replica is deleted": lambda state: bool(state.destroyed),
            "a replica is kept as a stray": lambda state: bool(state.strays),
            "a broker is refused": lambda state: state.refused,
            "a topic that was deleted while its broker was down": lambda state: (
                not state.running and bool(state.replicas & state.deleted)
            ),
        }
