"""The gate does what the machine of `spec.authentication` says, message by message."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.server.transport.security.plain import PlainExchange
from tidegauge.impl.server.transport.security.sasl_gate import GateState, SaslGate, SaslServer
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.codecs import encode_request
from tidegauge.impl.wire.frames import LENGTH
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.spec.authentication.small_machines import MACHINES
from tidegauge.spec.authentication.machine import (
    Ask,
    AskVersions,
    Authentication,
    Outcome,
    Phase,
    Prove,
    Session,
    Shake,
    TimePasses,
)
from tidegauge.spec.kernel.machine import Action

PHASES = {GateState.HANDSHAKE: Phase.HANDSHAKE, GateState.AUTHENTICATE: Phase.PROOF, GateState.OPEN: Phase.REQUESTS}


def frame(action: Action) -> bytes:
    match action:
        case Shake(mechanism):
            return framed(SaslHandshakeRequest(mechanism=f"M{mechanism}"))
        case Prove(user):
            name = 0 if user is None else user
            return framed(
                SaslAuthenticateRequest(auth_bytes=f"\0user-{name}\0{'wrong' if user is None else 'right'}".encode())
            )
        case AskVersions():
            return struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1)
    return struct.pack(">hhih", ApiKey.METADATA, 12, 1, -1)


def framed(message: object) -> bytes:
    return encode_request(message, 1, "peer")[LENGTH.size :]


class Driven:
    """A gate beside its machine."""

    def __init__(self, machine: Authentication) -> None:
        passwords = {f"user-{user}": "right" for user in range(machine.users)}
        exchanges = {f"M{number}": lambda: PlainExchange(passwords) for number in range(machine.mechanisms)}
        server = SaslServer(exchanges, SimulatedClock(), failure_delay_ms=0, max_reauth_ms=machine.lifetime * 1_000)
        self.machine = machine
        self.gate = SaslGate(server)
        (self.state,) = machine.initial()

    async def perform(self, action: Action) -> None:
        """Let both do it, and compare."""
        self.state = self.machine.step(self.state, action)
        if isinstance(action, TimePasses):
            await trio.sleep(1)
            return
        try:
            outcome = Outcome.PASSED if await self.gate.take(frame(action)) is None else Outcome.HANDLED
        except RefusedError:
            outcome = Outcome.CLOSED
        assert outcome is self.state.outcome, action
        if outcome is not Outcome.CLOSED:
            assert PHASES[self.gate.state] is self.state.phase
        user = None if self.state.user is None else f"user-{self.state.user}"
        assert (self.gate.principal.name if user else None) == user


def in_virtual_time(run: Callable[[], Awaitable[None]]) -> None:
    run_deterministically(run, seed=1)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_every_walk_of_four_messages(machine: Authentication) -> None:
    async def walk(path: tuple[Action, ...]) -> Session:
        driven = Driven(machine)
        for action in path:
            await driven.perform(action)
        return driven.state

    async def run() -> None:
        paths: list[tuple[Action, ...]] = [()]
        for _ in range(4):
            longer = []
            for path in paths:
                state = await walk(path)
                longer += [(*path, action) for action in machine.actions(state)]
            paths = longer
        for path in paths:
            await walk(path)

    in_virtual_time(run)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(MACHINES), st.lists(st.integers(0, 8), max_size=40))
def test_long_walks(machine: Authentication, choices: list[int]) -> None:
    async def run() -> None:
        driven = Driven(machine)
        for choice in choices:
            # The first proof that is due is preferred, so that walks get far.
            likely: list[Action] = (
                [Prove(driven.state.user or 0)] if driven.state.phase is Phase.PROOF and choice else []
            )
            enabled = likely or [one for one in machine.actions(driven.state) if _leads_on(machine, driven.state, one)]
            if enabled:
                await driven.perform(enabled[choice % len(enabled)])

    in_virtual_time(run)


def _leads_on(machine: Authentication, state: Session, action: Action) -> bool:
    return isinstance(action, TimePasses) or machine.step(state, action).phase is not Phase.CLOSED


def test_the_messages_of_the_lockstep_are_those_of_the_machine() -> None:
    assert {type(action) for action in Authentication().actions(Session(Phase.REQUESTS, 0, 0))} == {
        Ask,
        AskVersions,
        Prove,
        Shake,
        TimePasses,
    }
