"""Processes with one broker id: when a new one takes the place of the one that is registered (KIP-631).

A process has a log directory, which it locks, and an address, at which it listens; lock and address go with it when it
dies. With its registration it names the directory's id and the address's name. The registered one has a session from
its first heartbeat on, until it expires. A controller that starts anew gives every session its full time again, and has
no connection to anybody.

While a session lasts another process is refused, for the first may live. It may be let in earlier if the first has
provably died. Three things speak for that, and each is wrong once in a while: its connection has closed (a network
closes one too), another process names its directory (which may be a copy), or its address (two machines may give theirs
the same name). Two of the three are proof. A machine has `faults` of those, one by default: with as many as two at a
time, a copy on another machine under the same name, a live process may be replaced. The broker epoch fences it then.
That a live process is replaced if its heartbeats do not arrive for a session is what sessions are for: left out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled
from tidegauge.spec.kernel.meaning import says

OWN, OTHER = 0, 1
"""The broker's directory and address, and those of another place."""


class Contact(Enum):
    """What the controller has of the registered process's connections since it started."""

    NONE = "none"
    OPEN = "open"
    CLOSED = "closed"


@attrs.frozen(order=True)
class Process:
    """Where a process runs, and what it names when it registers."""

    directory: int
    """The one that it locks."""
    directory_id: int
    address: int
    """Where it listens."""
    address_name: int

    @property
    def faults(self) -> int:
        """What was done wrong that it is so: its directory is a copy, its address has the name of another."""
        return int(self.directory != self.directory_id) + int(self.address != self.address_name)


PLACES: tuple[tuple[int, int], ...] = ((OWN, OWN), (OTHER, OTHER), (OTHER, OWN))
"""A directory and its id, or an address and its name: the broker's own, another one, another one that looks so."""
PROCESSES: tuple[Process, ...] = tuple(Process(*directory, *address) for directory in PLACES for address in PLACES)


@attrs.frozen
class Registered:
    """The process that the controller takes for the broker."""

    process: Process
    lives: bool = True
    has_session: bool = False
    contact: Contact = Contact.OPEN
    is_early: bool = False
    """Whether it was let in while the one before it had a session."""


@attrs.frozen
class Contest:
    """The processes that run with one id, and the one that is registered."""

    running: frozenset[Process] = frozenset()
    registered: Registered | None = None
    serving: frozenset[Process] = frozenset()
    """Those that have had a session. One that has been replaced serves until it knows."""
    faults: int = 0


@attrs.frozen
class Start(Action):
    """A process starts."""

    process: Process


@attrs.frozen
class Die(Action):
    """A process is killed: its lock and its address are free, its connections close."""

    process: Process


@attrs.frozen
class Register(Action):
    """A process asks to be the broker, and is let in."""

    process: Process


@attrs.frozen
class Heartbeat(Action):
    """The registered process renews its session."""


@attrs.frozen
class LoseConnection(Action):
    """The network closes the registered process's connection."""


@attrs.frozen
class RestartController(Action):
    """A new controller takes over."""


@attrs.frozen
class Expire(Action):
    """The session ends of a registered process that has died."""


@attrs.frozen
class Succession(Machine[Contest]):
    """One broker id, and all who may ask for it."""

    action_types: ClassVar[tuple[type[Action], ...]] = (
        Start,
        Die,
        Register,
        Heartbeat,
        LoseConnection,
        RestartController,
        Expire,
    )
    faults: int = 1
    """How many things are done or go wrong: a directory copied, an address's name given twice, a connection lost."""

    def initial(self) -> Iterable[Contest]:
        return (Contest(),)

    def actions(self, state: Contest) -> Iterator[Action]:
        candidates: list[Action] = [Heartbeat(), LoseConnection(), RestartController(), Expire()]
        candidates += [kind(process) for process in PROCESSES for kind in (Start, Die, Register)]
        return (action for action in candidates if not self.guard(state, action))

    def guard(self, state: Contest, action: Action) -> str:
        """Why the action is not enabled; "" when it is."""
        registered = state.registered
        match action:
            case Start(process):
                if any(process.directory == one.directory for one in state.running):
                    return "the directory is locked"
                if any(process.address == one.address for one in state.running):
                    return "the address is taken"
                return "" if state.faults + process.faults <= self.faults else "nothing more is done wrong"
            case Die(process):
                return "" if process in state.running else "there is no such process"
            case Register(process):
                return self._refusal(state, process)
            case Heartbeat():
                is_new = registered is not None and not (registered.has_session and registered.contact is Contact.OPEN)
                return "" if registered and registered.lives and is_new else "there is nothing to renew"
            case LoseConnection():
                is_open = registered is not None and registered.lives and registered.contact is Contact.OPEN
                return "" if is_open and state.faults < self.faults else "no connection is lost"
            case RestartController():
                has_contact = registered is not None and registered.contact is not Contact.NONE
                return "" if has_contact else "the controller is new"
            case Expire():
                has_expired = registered is not None and not registered.lives and registered.has_session
                return "" if has_expired else "no session expires"
        raise NotImplementedError(action)

    def _refusal(self, state: Contest, process: Process) -> str:
        registered = state.registered
        if process not in state.running:
            return "there is no such process"
        if registered is None:
            return ""
        if registered.lives and registered.process == process:
            return "it is registered"
        if registered.has_session and not self.has_died(registered, process):
            return "DUPLICATE_BROKER_REGISTRATION"
        return ""

    def step(self, state: Contest, action: Action) -> Contest:
        if reason := self.guard(state, action):
            raise NotEnabled(action, reason)
        match action:
            case Start(process):
                running = state.running | {process}
                return evolve(state, running=running, faults=state.faults + process.faults)
            case Die(process):
                return self._after_death(state, process)
            case Register(process):
                is_early = state.registered is not None and state.registered.has_session
                return evolve(state, registered=Registered(process, is_early=is_early))
        return self._renewed(state, action)

    def _renewed(self, state: Contest, action: Action) -> Contest:
        """After what concerns the registered process alone."""
        registered, serving, faults = state.registered, state.serving, state.faults
        assert registered is not None, "the guard of these actions"
        match action:
            case Heartbeat():
                registered = evolve(registered, has_session=True, contact=Contact.OPEN)
                serving |= {registered.process}
            case LoseConnection():
                registered = evolve(registered, contact=Contact.CLOSED)
                faults += 1
            case RestartController():
                registered = evolve(registered, contact=Contact.NONE)
            case _:
                assert isinstance(action, Expire), "the guard knows no other"
                registered = evolve(registered, has_session=False)
        return evolve(state, registered=registered, serving=serving, faults=faults)

    def _after_death(self, state: Contest, process: Process) -> Contest:
        registered = state.registered
        if registered is not None and registered.lives and registered.process == process:
            contact = Contact.CLOSED if registered.contact is Contact.OPEN else registered.contact
            registered = evolve(registered, lives=False, contact=contact)
        gone = {process}
        return evolve(state, running=state.running - gone, serving=state.serving - gone, registered=registered)

    # --- the rules -----------------------------------------------------------------------------------------------

    def has_died(self, registered: Registered, process: Process) -> bool:
        """Whether the registered process is proved to have died, by another one that asks: two of three say so."""
        if registered.contact is Contact.OPEN:
            return False
        return (
            (registered.contact is Contact.CLOSED)
            + (process.directory_id == registered.process.directory_id)
            + (process.address_name == registered.process.address_name)
        ) >= 2

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def invariants(self) -> Mapping[str, Invariant[Contest]]:
        return {
            "OfTwoLiveProcessesOneServes": says(
                "No two processes serve as one broker.", lambda state: len(state.serving) < 2
            )
        }

    @property
    def converges(self) -> Mapping[str, Invariant[Contest]]:
        def one_is_the_broker(state: Contest) -> bool:
            registered = state.registered
            is_broker = registered is not None and registered.lives and registered.has_session
            return is_broker or not state.running

        return {"where processes run, one of them is the broker": one_is_the_broker}

    def is_fair(self, before: Contest, action: Action, after: Contest) -> bool:
        """Who runs registers and renews its session, and a session expires. Nobody promises that a process starts."""
        return isinstance(action, Register | Heartbeat | Expire)

    @property
    def sometimes(self) -> Mapping[str, Invariant[Contest]]:
        def let_in_early(state: Contest) -> bool:
            return state.registered is not None and state.registered.is_early

        return {
            "a process is let in before the session of the one before it expires": let_in_early,
            "two processes run": lambda state: len(state.running) == 2,
            "a process is let in that has not the directory of the one before it": lambda state: (
                let_in_early(state) and state.registered is not None and state.registered.process.directory_id == OTHER
            ),
        }
