"""Producers beside an implementation of transactions: what they know, and what the responses to them change of it.

What clients choose, and which of their requests are late, is nobody's rule: it is taken from the machine. What they are
told comes from the implementation.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.messages import ProducerGiven
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.transactions import consuming, partitioning, producing
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.actions import Waiting
from tidegauge.spec.transactions.machine import Transactions

RETRIABLE = (ErrorCode.concurrent_transactions, ErrorCode.coordinator_load_in_progress)
"""Upon these a producer sends its request again; nothing else has changed."""

BY_CLIENTS = (
    producing.Start,
    producing.Begin,
    producing.Send,
    producing.End,
    producing.Upgrade,
    producing.CrashProducer,
    producing.GiveUp,
    *producing.DELAYS,
)
"""What clients do: no implementation has a part in it."""
BY_GROUP = (consuming.Rebalance, consuming.FetchOffset)
"""What the group of consumers does, which cores have no part in."""


class TransactionClients:
    """The producers of a machine, in its initial state."""

    def __init__(self, machine: Transactions) -> None:
        self.machine = machine
        self.producers: tuple[spec.Producer, ...] = (spec.Producer(),) * machine.producers
        self.transactions: tuple[spec.Transaction, ...] = ()
        """As the specification has them: they are nobody else's business."""
        self.open_of: list[int] = [spec.NONE] * machine.transactional_ids
        """Of each id the transaction that is open, as the specification numbers it."""
        self.taken_over: dict[int, tuple[int, int]] = {}
        """Of each transaction what who has taken it over was told of it: a producer id, and an epoch."""

    def expect(self, expected: spec.State) -> None:
        """Which transaction is which the specification says."""
        self.transactions = expected.transactions
        self.open_of = [(*one.logged.transactions, spec.NONE)[0] for one in expected.coordination]

    def choose(self, action: Action, before: spec.State) -> None:
        """What clients choose, and the group."""
        assert isinstance(action, producing.ProducerAction | producing.SlotAction | producing.Delay)
        self.producers = action.effect(self.machine, before).producers

    def give_up(self, action: Action, before: spec.State) -> bool:
        """Whether a record is refused by its group's coordinator, which is the specification's; its producer is told.

        The group's coordinator speaks before the partition does.
        """
        request = action.request  # type: ignore[attr-defined]
        if not is_of_group(self.machine, request, before):
            return False
        self.producers = action.effect(self.machine, before).producers  # type: ignore[attr-defined]
        return True

    def deliver(self, request: Waiting, response: object) -> None:
        """A response of the coordinator reaches who waits for it, if that is still so."""
        machine, number = self.machine, request.producer
        error = error_of(response)
        if error is not ErrorCode.none:
            if error not in RETRIABLE:
                self.stop(number)
            return
        world = self.clients()
        producer = self.producers[number]
        match request:
            case spec.InitRequest():
                assert isinstance(response, ProducerGiven)
                if machine.init_request(world, number) == request:
                    self.replace(number, self.begun(producer, request, response))
            case spec.AddRequest(partition=place):
                if machine.add_request(world, number, place) == request:
                    slot = attrs.evolve(producer.slots[place], added=True)
                    self.replace(number, producer.with_slot(place, slot))
            case spec.EndRequest(decision=decision):
                assert isinstance(response, ProducerGiven)
                if machine.end_request(world, number) == request:
                    after = machine.after_end(producer, spec.Metadata())
                    if producer.version >= 2:
                        after = machine.initialised(producer, response.producer_id, response.epoch)
                    position = machine.position_after(producer, decision)
                    self.replace(number, attrs.evolve(after, position=position))

    def begun(self, producer: spec.Producer, request: spec.InitRequest, given: ProducerGiven) -> spec.Producer:
        """A producer that was given an epoch, perhaps with a transaction that it takes over (KIP-939)."""
        if given.ongoing[1] == spec.NONE:
            return self.machine.initialised(producer, given.producer_id, given.epoch)
        number = self.open_of[self.machine.id_of(request.producer)]
        self.taken_over[number] = given.ongoing
        metadata = spec.Metadata(producer_id=given.producer_id, epoch=given.epoch, transactions=(number,))
        return self.machine.taken_over(producer, metadata, self.transactions[number])

    def told_otherwise(self, expected: spec.State) -> Iterator[Change]:
        """What producers have been told that they take over, where the specification says otherwise."""
        for one in expected.coordination:
            for number in one.logged.transactions:
                told = self.taken_over.get(number)
                if told not in (None, wanted := self.machine.ongoing(one.logged)):
                    yield Change(f"transactions[{number}].ongoing", wanted, told)

    def acknowledge(self, request: spec.ProduceRequest) -> None:
        """A producer is told that its record is in the log."""
        producer = self.producers[request.producer]
        slot = producer.slots[request.partition]
        slot = attrs.evolve(slot, in_flight=False, acknowledged=slot.acknowledged + 1, appended=spec.NONE)
        self.replace(request.producer, producer.with_slot(request.partition, slot))

    def wait(self, request: spec.ProduceRequest, offset: int) -> None:
        """A producer waits for the response to an offset commit that is in the log."""
        producer = self.producers[request.producer]
        slot = attrs.evolve(producer.slots[request.partition], appended=offset)
        self.replace(request.producer, producer.with_slot(request.partition, slot))

    def waits(self, request: spec.ProduceRequest) -> bool:
        """Whether it does."""
        slots = self.producers[request.producer].slots
        return bool(slots) and slots[request.partition].appended != spec.NONE

    def forget(self, place: int) -> None:
        """The leader has changed: nobody waits for the last one."""
        if place == self.machine.offsets_partition:
            self.producers = partitioning.forgotten(self.clients(), place).producers

    def clients(self) -> spec.State:
        """The world as far as clients go."""
        return spec.State(self.producers, (), ())

    def replace(self, number: int, producer: spec.Producer) -> None:
        self.producers = (*self.producers[:number], producer, *self.producers[number + 1 :])

    def stop(self, number: int) -> None:
        """A producer can't go on."""
        self.replace(number, self.machine.stopped(self.producers[number], spec.Phase.FENCED))


def told_version(version: int) -> int:
    """The transaction version that a client of this version of the protocol has told Kafka."""
    return 2 if version >= 2 else 0


def error_of(response: object) -> ErrorCode:
    """The error of any of the coordinator's responses."""
    if isinstance(response, ProducerGiven):
        return response.error
    assert isinstance(response, ErrorCode)
    return response


def is_of_group(machine: Transactions, request: spec.ProduceRequest, state: spec.State) -> bool:
    """Whether the group's coordinator has something to say against a record, before the partition has."""
    is_offset = request.partition == machine.offsets_partition
    return is_offset and machine.generation_error(state.group, request) is not spec.Error.NONE
