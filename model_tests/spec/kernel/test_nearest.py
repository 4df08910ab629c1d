"""Minimising takes the nearest enabled action in place of one whose message differs now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled
from tidegauge.spec.kernel.nearest import nearest_enabled
from tidegauge.spec.kernel.traces import minimise, replay
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ReceiveAlterPartition, ShrinkIsr
from tidegauge.spec.replication.machine import Replication


@attrs.frozen
class Message:
    sender: int
    epoch: int


@attrs.frozen
class State:
    epoch: int = 0
    sent: tuple[Message, ...] = ()
    received: int = 0


@attrs.frozen
class Rise(Action):
    """The epoch rises."""


@attrs.frozen
class Send(Action):
    sender: int


@attrs.frozen
class Receive(Action):
    message: Message
    times: int = 1


@attrs.frozen
class Post(Machine[State]):
    """Messages carry the epoch in which they were sent."""

    action_types = (Rise, Send, Receive)

    def initial(self) -> Iterable[State]:
        yield State()

    def actions(self, state: State) -> Iterable[Action]:
        yield from (Rise(), Send(0), Send(1), *map(Receive, state.sent))

    def step(self, state: State, action: Action) -> State:
        match action:
            case Rise():
                return attrs.evolve(state, epoch=state.epoch + 1)
            case Send(sender):
                return attrs.evolve(state, sent=(*state.sent, Message(sender, state.epoch)))
            case Receive(message, times) if message in state.sent and times <= 2:
                return attrs.evolve(state, received=state.received + times)
        raise NotEnabled(action, "it was sent")

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"NothingReceived": lambda state: state.received == 0}


SENT = State(sent=(Message(0, 3), Message(1, 2)))


def test_the_message_that_agrees_in_most_values_is_taken() -> None:
    assert nearest_enabled(Post(), SENT, Receive(Message(1, 7))) == Receive(Message(1, 2))
    assert nearest_enabled(Post(), SENT, Receive(Message(9, 3))) == Receive(Message(0, 3))


def test_what_an_action_says_beside_its_message_stays_if_that_is_enabled() -> None:
    assert nearest_enabled(Post(), SENT, Receive(Message(1, 7), times=2)) == Receive(Message(1, 2), times=2)
    assert nearest_enabled(Post(), SENT, Receive(Message(1, 7), times=3)) == Receive(Message(1, 2), times=1)


def test_an_action_without_a_message_has_no_other_in_its_place() -> None:
    assert nearest_enabled(Post(), SENT, Rise()) is None
    assert nearest_enabled(Post(), State(), Receive(Message(0, 0))) is None


def test_a_step_that_only_changes_what_messages_carry_is_left_out() -> None:
    actions = (Rise(), Send(0), Rise(), Send(1), Receive(Message(1, 2)))
    violation = replay(Post(), actions).violation
    assert violation is not None
    assert minimise(Post(), violation).trace.actions == (Send(0), Receive(Message(0, 0)))


def test_values_within_the_tuples_of_a_message_are_compared_too() -> None:
    machine = Replication(brokers=3, max_records=1, bounds=Bounds(ShrinkIsr=2))
    (state,) = machine.initial()
    state = machine.step(machine.step(state, Append(0)), ShrinkIsr(0, (1,)))
    (proposed,) = state.network.alters
    earlier = attrs.evolve(proposed, partition_epoch=3)
    assert nearest_enabled(machine, state, ReceiveAlterPartition(earlier)) == ReceiveAlterPartition(proposed)
    other = attrs.evolve(proposed, isr=((0, 0), (1, 0)))
    both = attrs.evolve(state, network=attrs.evolve(state.network, alters=tuple(sorted((proposed, other)))))
    assert nearest_enabled(machine, both, ReceiveAlterPartition(earlier)) == ReceiveAlterPartition(proposed)
    assert nearest_enabled(
        machine, both, ReceiveAlterPartition(attrs.evolve(other, partition_epoch=3))
    ) == ReceiveAlterPartition(other)
