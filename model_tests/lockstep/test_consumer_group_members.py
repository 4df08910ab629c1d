"""The native member of a consumer group (KIP-848) goes beside the processes of its specification, walk by walk.

Before every action each member says what the machine's process says; after it, it knows what that knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from random import Random
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.consumer_membership import ConsumerMembership, Heartbeat, Place
from tidegauge.impl.client.membership import State
from tidegauge.model_tests.spec.walked import OFTEN
from tidegauge.spec.groups.consumer import processes, requests, timing
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.machine import ConsumerGroups as Machine
from tidegauge.spec.kernel.bounds import Bounds


def places(partitions: tuple[int, ...] | None) -> tuple[Place, ...] | None:
    return None if partitions is None else tuple(("t", number) for number in partitions)


def expression(number: int) -> str:
    return "" if number == spec.NONE else f"expression-{number}"


def topics(wanted: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"topic-{topic}" for topic in wanted)


class Members:
    """A core for each process that is up."""

    def __init__(self, machine: Machine, kind: type[ConsumerMembership] = ConsumerMembership) -> None:
        self.machine = machine
        self.kind = kind
        self.cores: dict[int, ConsumerMembership] = {}

    def perform(self, action: Any, state: spec.State) -> None:
        """Let the members do what the machine is about to do."""
        match action:
            case processes.Start(number):
                instance = self.machine.instance_of(number)
                wants = action.effect(self.machine, state).processes[number]
                name = None if instance == spec.NONE else str(instance)
                self.cores[number] = self.kind(
                    str(self.machine.new_member_id(state)), topics(wants.topics), name, expression(wants.expression)
                )
            case processes.Crash(number):
                del self.cores[number]
            case processes.GiveBack(number):
                self.cores[number].gave_back(self.cores[number].to_give_back())
            case processes.Reconcile(number):
                self.cores[number].after_reconciling()
            case processes.Resubscribe(number):
                wants = action.effect(self.machine, state).processes[number]
                self.cores[number].subscribe(topics(wants.topics), expression(wants.expression))
            case requests.ReceiveLeave(request, _):
                assert self.cores.pop(request.process).leave() == request.epoch
            case requests.ReceiveHeartbeat(_, late=False):
                self.beat(action, state)
            case requests.LoseResponse(number) | requests.DelayHeartbeat(number):
                self.cores[number].after_loss(self.sent(number))
            case timing.CommitRecord():
                self.committed(state.appended[0], state)
            case timing.FailOver(kept):
                self.fail_over(state, kept)

    def sent(self, number: int) -> Heartbeat:
        heartbeat = self.cores[number].send()
        assert heartbeat is not None, "the machine sends one"
        return heartbeat

    def beat(self, action: requests.ReceiveHeartbeat, state: spec.State) -> None:
        number = action.request.process
        asked = self.sent(number)
        error, after = action.outcome(self.machine, state)
        if error is not spec.Error.NONE:
            self.cores[number].after_error(asked, self.told(state, ErrorCode(error.value)))
        elif not after.processes[number].waiting:
            self.respond(number, requests.advanced(self.machine, state, action.request)[1])

    @staticmethod
    def told(state: spec.State, error: ErrorCode) -> ErrorCode:
        """A group without members may be gone, which the specification does not tell apart."""
        is_gone = state.group is not None and not state.group.members
        return ErrorCode.group_id_not_found if is_gone and error is ErrorCode.unknown_member_id else error

    def respond(self, number: int, response: spec.Response) -> None:
        asked = self.cores[number].sent
        assert asked is not None, "it waits for the response"
        self.cores[number].after_response(asked, response.epoch, places(response.assignment))

    def committed(self, entry: spec.Entry, state: spec.State) -> None:
        if entry.request is None or entry.response is None:
            return
        process = state.processes[entry.request.process]
        if process.waiting and process.member_id == entry.request.member_id:
            self.respond(entry.request.process, entry.response)

    def fail_over(self, state: spec.State, kept: int) -> None:
        for number, process in enumerate(state.processes):
            if process.waiting:
                asked = self.cores[number].sent
                assert asked is not None, "it waits for the response"
                self.cores[number].after_loss(asked)

    # --- the abstraction -----------------------------------------------------------------------------------------

    def check(self, state: spec.State) -> None:
        for number, process in enumerate(state.processes):
            core = self.cores.get(number)
            if process.phase is spec.Phase.DOWN:
                assert core is None
                continue
            assert core is not None
            assert (core.state is State.FENCED) == (process.phase is spec.Phase.FENCED)
            if process.phase is spec.Phase.FENCED:
                assert core.heartbeat_request() is None
                continue
            assert core.member_id == str(process.member_id)
            assert (core.epoch, core.full, core.sent is not None) == (process.epoch, process.full, process.waiting)
            assert (core.topics, core.expression) == (topics(process.topics), expression(process.expression))
            assert core.asked == (topics(process.asked[0]), expression(process.asked[1]))
            assert (core.owned, core.assigned, core.said) == (
                places(process.owned),
                places(process.assigned),
                places(process.said),
            )
            self.check_request(core, self.machine.heartbeat_request(state, number))

    def check_request(self, core: ConsumerMembership, wanted: spec.HeartbeatRequest | None) -> None:
        says = core.heartbeat_request()
        if wanted is None:
            assert says is None
            return
        subscribed = topics(wanted.topics), expression(wanted.expression)
        assert says == Heartbeat(wanted.epoch, *subscribed, places(wanted.owned), wanted.full)


def walk(seed: int, kind: type[ConsumerMembership] = ConsumerMembership) -> set[str]:
    """One walk; the classes of action that were taken."""
    rng = Random(seed)
    bounds = dict.fromkeys(Machine().perturbations, OFTEN)
    if seed % 2:
        del bounds["FailOver"]
    instances = ((), (0, 0))[seed % 3 == 0]
    machine = Machine(
        processes=3,
        instances=instances,
        partitions=3,
        topics=2,
        matches=((0, 1), (1,)),
        expressions=(0, spec.NONE, 1)[: seed % 4],
        commits=1,
        bounds=Bounds(bounds),
        spaces_targets=seed % 5 == 0,
    )
    members = Members(machine, kind)
    (state,) = machine.initial()
    taken = set[str]()
    for _ in range(80):
        actions = list(machine.actions(state))
        if not actions:
            break
        fair = [one for one in actions if not getattr(one, "bounded_as", "")]
        action = rng.choice(fair if fair and rng.random() < 0.5 else actions)
        members.perform(action, state)
        state = machine.step(state, action)
        members.check(state)
        taken.add(action.name)
    return taken


def test_walks_find_no_difference_and_take_every_action() -> None:
    taken = set[str]().union(*map(walk, range(24)))
    assert taken == {kind.__name__ for kind in Machine.action_types}


# --- members with a rule that is wrong -------------------------------------------------------------------------------


class KeepsWhatItLost(ConsumerMembership):
    def kept_when_fenced(self) -> tuple[Place, ...]:
        return self.owned


class AcknowledgesWhatIsNewOnly(ConsumerMembership):
    def said_after_assignment(self) -> tuple[Place, ...] | None:
        return self.said


class TakesLossForNothing(ConsumerMembership):
    def after_loss(self, asked: Heartbeat) -> None:
        self.sent = None


class StaysWhenFenced(ConsumerMembership):
    def after_error(self, asked: Heartbeat, error: ErrorCode) -> None:
        self.after_loss(asked)


class WaitsForAGroupThatIsGone(ConsumerMembership):
    """librdkafka 5485: it goes on sending heartbeats of its epoch."""

    def after_error(self, asked: Heartbeat, error: ErrorCode) -> None:
        if error is ErrorCode.group_id_not_found:
            self.after_loss(asked)
        else:
            super().after_error(asked, error)


class OwnsNothingMeanwhile(ConsumerMembership):
    def gave_back(self, places: Iterable[Place]) -> None:
        self.owned = ()


class SaysWhatItHasGivenBackAtOnce(ConsumerMembership):
    def heartbeat_request(self) -> Heartbeat | None:
        asked = super().heartbeat_request()
        return None if asked is None or self.owned == self.said else attrs.evolve(asked, owned=self.owned)


MUTANTS = (
    KeepsWhatItLost,
    AcknowledgesWhatIsNewOnly,
    TakesLossForNothing,
    StaysWhenFenced,
    WaitsForAGroupThatIsGone,
    OwnsNothingMeanwhile,
    SaysWhatItHasGivenBackAtOnce,
)


@pytest.mark.parametrize("kind", MUTANTS)
def test_walks_find_a_member_with_a_wrong_rule(kind: type[ConsumerMembership]) -> None:
    with pytest.raises(AssertionError):
        list(map(walk, range(24), repeat(kind)))
