"""Which followers lag: by the times of their fetches (replica.lag.time.max.ms), of which some are not even looked at.

Theory of operation
-------------------
A leader drops a follower from the ISR that is behind and has been for longer than a limit. Nobody can know when a
follower had all that the leader had, since the leader only sees it fetch. So it takes the time of a fetch

* that asks for what comes after the leader's last record: the follower has everything now;
* after which the next one asks for what has been appended meanwhile, or more: the follower had everything *then*.

By the second rule a follower that is always a little behind, under a load that never ends, stays in sync.

A fetch that would change nothing but these times, and would get the same empty response, is *at rest*: the leader does
not look at it again before something changes. The follower goes on asking, and who receives that notes the time. When
the fetch stops being at rest, the leader is told until when the follower had everything (`Wake`), before it drops
anybody. What is told may be late all the same: after another fetch, from another process, in another leader epoch, or
where nobody leads any more.

Time is counted in ticks. Who joins the ISR is no part of this machine: a follower that is dropped comes back with the
next leader epoch. What a follower holds is `spec.replication`'s; here its fetches ask for whatever they like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise, product
from typing import ClassVar, Final, TypeVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction, GuardedMachine, Refusal
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.lag.state import NONE, Error, Fetched, Follower, Request, Rest, State, Witness

T = TypeVar("T")


@attrs.frozen
class LagAction(GuardedAction["Lag", State]):
    """An action of this machine."""


@attrs.frozen
class FollowerAction(LagAction):
    """An action that concerns one follower, by its place among them."""

    follower: int


@attrs.frozen
class Append(LagAction):
    """The leader appends a record."""

    fair: ClassVar[bool] = False

    def guard(self, machine: Lag, state: State) -> str:
        return "nothing is appended" if not state.leads or state.end >= machine.max_records else ""

    def effect(self, machine: Lag, state: State) -> State:
        return evolve(state, end=state.end + 1)


@attrs.frozen
class Delete(LagAction):
    """Retention removes what every follower in sync has."""

    fair: ClassVar[bool] = False

    def guard(self, machine: Lag, state: State) -> str:
        return "" if state.leads and self.offset(state) > state.start else "there is nothing to delete"

    def offset(self, state: State) -> int:
        """Up to where."""
        return min((follower.end for follower in state.followers if follower.in_sync), default=state.end)

    def effect(self, machine: Lag, state: State) -> State:
        return evolve(state, start=self.offset(state))


@attrs.frozen
class Fetch(FollowerAction):
    """A follower fetches, and the leader looks at it."""

    fair: ClassVar[bool] = False

    offset: int
    start: int

    def guard(self, machine: Lag, state: State) -> str:
        if not state.leads or not state.start <= self.offset <= state.end or self.start not in (0, state.start):
            return "nobody fetches that"
        rest = state.rests[self.follower]
        process = state.processes[self.follower]
        if rest is not None and rest.request.process == process and is_of_now(state, self.follower, rest):
            return "the fetch is at rest, or is told of first"
        of_it = sum(len(fetches) for fetches in state.witness.fetches)
        return "no more fetches in this model" if of_it >= machine.max_fetches else ""

    def effect(self, machine: Lag, state: State) -> State:
        request = Request(state.epoch, state.processes[self.follower], self.offset, self.start)
        after = machine.fetched(state, state.followers[self.follower], request)
        state = evolve(state, followers=replaced(state.followers, self.follower, after))
        return witnessed(state, self.follower, self.offset)


@attrs.frozen
class BeginRest(FollowerAction):
    """A follower's last fetch is at rest from now on."""

    fair: ClassVar[bool] = False

    def guard(self, machine: Lag, state: State) -> str:
        if state.rests[self.follower] is not None:
            return "its fetch is at rest"
        return "" if machine.is_at_rest(state, self.follower, machine.last_request(state, self.follower)) else "not yet"

    def effect(self, machine: Lag, state: State) -> State:
        rest = Rest(machine.last_request(state, self.follower), state.followers[self.follower].fetched_at)
        return evolve(state, rests=replaced(state.rests, self.follower, rest))


@attrs.frozen
class AskAgain(FollowerAction):
    """A follower asks the same, and the time is noted."""

    fair: ClassVar[bool] = False

    def guard(self, machine: Lag, state: State) -> str:
        rest = state.rests[self.follower]
        if rest is None or rest.asked_at == state.now or rest.request.process != state.processes[self.follower]:
            return "it does not ask"
        return "" if machine.is_at_rest(state, self.follower, rest.request) else "something has changed"

    def effect(self, machine: Lag, state: State) -> State:
        rest = state.rests[self.follower]
        assert rest is not None
        state = evolve(state, rests=replaced(state.rests, self.follower, evolve(rest, asked_at=state.now)))
        return witnessed(state, self.follower, rest.request.offset)


@attrs.frozen
class Wake(FollowerAction):
    """The leader learns until when a follower's fetch was at rest."""

    def guard(self, machine: Lag, state: State) -> str:
        return "" if state.rests[self.follower] is not None else "nothing rests"

    def effect(self, machine: Lag, state: State) -> State:
        rest = state.rests[self.follower]
        assert rest is not None
        after = machine.rested(state, state.followers[self.follower], rest)
        return evolve(
            state,
            followers=replaced(state.followers, self.follower, after),
            rests=replaced(state.rests, self.follower, None),
        )


@attrs.frozen
class Restart(FollowerAction):
    """A follower's process ends, and another one begins."""

    fair: ClassVar[bool] = False

    def guard(self, machine: Lag, state: State) -> str:
        return "" if sum(state.processes) < machine.max_restarts else "no more restarts in this model"

    def effect(self, machine: Lag, state: State) -> State:
        return evolve(state, processes=replaced(state.processes, self.follower, state.processes[self.follower] + 1))


@attrs.frozen
class Shrink(LagAction):
    """The leader drops the followers that lag."""

    def guard(self, machine: Lag, state: State) -> str:
        if machine.waking(state):
            return "what has changed is told first"
        return "" if machine.lagging(state) else Refusal("nobody lags", Error.NONE)

    def effect(self, machine: Lag, state: State) -> State:
        lagging = machine.lagging(state)
        followers = tuple(
            evolve(follower, in_sync=False) if number in lagging else follower
            for number, follower in enumerate(state.followers)
        )
        return evolve(state, followers=followers)


@attrs.frozen
class Follow(LagAction):
    """Another broker leads: this one forgets what it knows of followers."""

    fair: ClassVar[bool] = False

    def guard(self, machine: Lag, state: State) -> str:
        return "" if state.leads and state.epoch < machine.max_epochs else "no other leader in this model"

    def effect(self, machine: Lag, state: State) -> State:
        forgotten = tuple(Follower(follower.in_sync) for follower in state.followers)
        return machine.in_epoch(evolve(state, leads=False), forgotten)


@attrs.frozen
class Lead(LagAction):
    """A leader epoch begins, with the same leader or with one that was none, and an ISR of the controller's."""

    fair: ClassVar[bool] = False

    in_sync: tuple[bool, ...]

    def guard(self, machine: Lag, state: State) -> str:
        return "" if state.epoch < machine.max_epochs else "no more epochs in this model"

    def effect(self, machine: Lag, state: State) -> State:
        return machine.in_epoch(evolve(state, leads=True), tuple(machine.at_first(state, one) for one in self.in_sync))


@attrs.frozen
class Tick(LagAction):
    """Time goes on."""

    def guard(self, machine: Lag, state: State) -> str:
        return "" if state.now < machine.max_time else "no more time in this model"

    def effect(self, machine: Lag, state: State) -> State:
        witness = evolve(state.witness, ends=(*state.witness.ends, state.end))
        return evolve(state, now=state.now + 1, witness=witness)


@attrs.frozen
class Lag(GuardedMachine[State]):
    """The machine: a leader, its followers, and a clock."""

    action_base = LagAction
    action_types: ClassVar[tuple[type[Action], ...]] = (
        Append,
        Delete,
        Fetch,
        BeginRest,
        AskAgain,
        Wake,
        Restart,
        Shrink,
        Follow,
        Lead,
        Tick,
    )

    count: int = 1
    """Followers."""
    limit: int = 1
    """Ticks that a follower may be behind."""
    max_time: int = 3
    max_records: int = 2
    max_fetches: int = 2
    """In one epoch."""
    max_epochs: int = 0
    max_restarts: int = 0

    def initial(self) -> Iterable[State]:
        nobody = (None,) * self.count
        fetches: tuple[tuple[Fetched, ...], ...] = ((),) * self.count
        return (State((Follower(),) * self.count, nobody, (0,) * self.count, Witness(fetches=fetches)),)

    def candidates(self, state: State) -> Iterator[LagAction]:
        yield from (Append(), Delete(), Shrink(), Follow(), Tick())
        yield from map(Lead, product((True, False), repeat=self.count))
        for follower in range(self.count):
            yield from (kind(follower) for kind in (BeginRest, AskAgain, Wake, Restart))
            offsets = range(state.start, state.end + 1)
            yield from (Fetch(follower, offset, start) for offset in offsets for start in sorted({0, state.start}))

    # --- the rules -----------------------------------------------------------------------------------------------

    def at_first(self, state: State, in_sync: bool) -> Follower:
        """What a leader supposes of a follower as its epoch begins: who is in sync has everything."""
        return Follower(in_sync, caught_up_at=state.now if in_sync else 0)

    def fetched(self, state: State, known: Follower, request: Request) -> Follower:
        """What the leader knows after a fetch."""
        return evolve(
            known,
            end=request.offset,
            process=request.process,
            start=request.start,
            caught_up_at=self.caught_up_at(state, known, request),
            fetched_at=state.now,
            leader_end=state.end,
        )

    def caught_up_at(self, state: State, known: Follower, request: Request) -> int:
        """It has everything now, or had it at its last fetch."""
        if request.offset >= state.end:
            return state.now
        return max(known.caught_up_at, known.fetched_at) if request.offset >= known.leader_end else known.caught_up_at

    def lagging(self, state: State) -> frozenset[int]:
        """The followers in sync that are behind, and have been for longer than the limit."""
        return frozenset(
            number
            for number, follower in enumerate(state.followers)
            if state.leads
            and follower.in_sync
            and follower.end < state.end
            and follower.caught_up_at < state.now - self.limit
        )

    def last_request(self, state: State, follower: int) -> Request:
        """The last fetch of a follower."""
        known = state.followers[follower]
        return Request(state.epoch, known.process, known.end, known.start)

    def is_at_rest(self, state: State, follower: int, request: Request) -> bool:
        """Whether the same fetch again would change nothing but times, and get the same empty response."""
        known = state.followers[follower]
        return (
            state.leads
            and known.in_sync
            and request.epoch == state.epoch
            and request.process >= known.process
            and request.offset == state.end
            and request.start >= state.start
        )

    def rested(self, state: State, known: Follower, rest: Rest) -> Follower:
        """What the leader knows after a fetch was at rest: that of this epoch and process, and no other one since."""
        request = rest.request
        if (request.epoch, request.process, request.offset) != (state.epoch, known.process, known.end):
            return known
        return evolve(
            known,
            caught_up_at=max(known.caught_up_at, rest.asked_at),
            fetched_at=max(known.fetched_at, rest.asked_at),
        )

    def waking(self, state: State) -> bool:
        """Whether a fetch is at rest no more, and the leader is about to learn until when it was."""
        return any(
            rest is not None and is_of_now(state, number, rest) and not self.is_at_rest(state, number, rest.request)
            for number, rest in enumerate(state.rests)
        )

    def in_epoch(self, state: State, followers: tuple[Follower, ...]) -> State:
        """The state as a leader epoch begins."""
        fetches: tuple[tuple[Fetched, ...], ...] = ((),) * self.count
        witness = evolve(state.witness, began_at=state.now, fetches=fetches)
        return evolve(state, epoch=state.epoch + 1, followers=followers, witness=witness)

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"ItHadWhatItIsSaidToHaveHad": had_what_it_is_said_to_have_had}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return {"WhoKeepsUpStays": partial(who_keeps_up_stays, self)}

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return {"who lags is not in sync": lambda state: not self.lagging(state)}

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        goals: dict[str, Invariant[State]] = {
            "a follower is dropped": lambda state: (
                state.epoch == 0 and not all(follower.in_sync for follower in state.followers)
            ),
            "a fetch is at rest for longer than the limit": lambda state: any(
                rest is not None
                and rest.asked_at == state.now
                and known.fetched_at < state.now - self.limit
                and is_of_now(state, number, rest)
                for number, (known, rest) in enumerate(zip(state.followers, state.rests, strict=True))
            ),
        }
        if self.max_records > 1 and self.max_fetches > 1:
            goals["a follower that is behind stays in sync for longer than the limit"] = lambda state: any(
                known.in_sync
                and known.end < state.end
                and known.caught_up_at >= state.now - self.limit
                and all(one.offset < one.leader_end for one in fetches)
                and state.witness.began_at < state.now - self.limit
                for known, fetches in zip(state.followers, state.witness.fetches, strict=True)
            )
        return goals


EPOCHS: Final = Model(
    "lag-epochs",
    Lag(max_time=2, max_records=1, max_epochs=1, max_restarts=1),
    "what is told of a rest when its process or its leader epoch has ended",
)


def replaced(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    """The values with another one in one place."""
    return (*values[:place], value, *values[place + 1 :])


def witnessed(state: State, follower: int, offset: int) -> State:
    """The state in which it is remembered that the follower has asked for this now."""
    fetches = state.witness.fetches
    fetched = Fetched(state.now, state.processes[follower], offset, state.end)
    if fetched in fetches[follower][-1:]:
        return state
    seen = (*fetches[follower], fetched)
    return evolve(state, witness=evolve(state.witness, fetches=replaced(fetches, follower, seen)))


def had_what_it_is_said_to_have_had(state: State) -> bool:
    """What the leader had when a follower is said to have been caught up, a fetch of this epoch has asked beyond."""
    for known, fetches in zip(state.followers, state.witness.fetches, strict=True):
        reached = max((one.offset for one in fetches), default=NONE)
        is_supposed = known.caught_up_at in (0, state.witness.began_at)
        if not is_supposed and state.witness.ends[known.caught_up_at] > reached:
            return False
    return True


def who_keeps_up_stays(machine: Lag, before: State, action: Action, after: State) -> bool:
    """Nobody is dropped of whom two fetches in a row of its process, or one, show that it had everything in time."""
    if not isinstance(action, Shrink):
        return True
    limit = before.now - machine.limit
    for number in machine.lagging(before):
        process = before.followers[number].process
        fetches = [one for one in before.witness.fetches[number] if one.process == process]
        for one, following in pairwise((*fetches, None)):
            assert one is not None, "only the last one is followed by none"
            then = one.offset >= one.leader_end or (following is not None and following.offset >= one.leader_end)
            if then and one.at >= limit:
                return False
    return True


def is_of_now(state: State, follower: int, rest: Rest) -> bool:
    """Whether a rest is that of the follower's last fetch."""
    known, request = state.followers[follower], rest.request
    return (request.epoch, request.process, request.offset) == (state.epoch, known.process, known.end)
