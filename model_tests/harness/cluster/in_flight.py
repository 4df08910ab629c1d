"""The frames that the simulated network holds, as messages of the specification.

Only the specification's messages are held: follower fetches, ISR proposals, and the responses to both. Frames that are
equal as messages are one message: of two only the newer is kept. A response for which the follower no longer waits is
dropped at once. The connection and the correlation id say which request a response belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.log import Buffer
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.impl.ports.simulated_network import Frame, SimulatedNetwork
from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.payload import decode_records
from tidegauge.impl.server.broker.alter_partition import core_response_of
from tidegauge.impl.server.requests.reads import partition_reads, partition_responses
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.codecs import decode_request, decode_response, encode_request
from tidegauge.model_tests.harness.cores import abstraction
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.state import Record

CONTROLLER = "controller"
BROKER = "broker-"

Message = TypeVar("Message")

WITHOUT_METADATA = (ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition)
"""The errors of a broker that has restarted and has no metadata yet; for the specification it knows no epoch yet."""


def is_held(frame: Frame) -> bool:
    """Whether the frame is a message of the specification; what an operator sends arrives at once."""
    if frame.api_key == ApiKey.FETCH:
        return frame.source.startswith(BROKER) and frame.destination.startswith(BROKER)
    return frame.api_key == ApiKey.ALTER_PARTITION and BROKER in (frame.source + frame.destination)


def broker_id(node: str) -> int:
    return int(node.removeprefix(BROKER))


def records_of(batches: Buffer) -> tuple[Record, ...]:
    """The specification's records in record batches; a record's value is the text of its number."""
    return tuple(
        Record(header.partition_leader_epoch, int(record.value or b""))
        for position, header in headers(batches)
        for record in decode_records(batches, position)
    )


@attrs.define
class FramesInFlight:
    """The frames on their way, by the specification's message."""

    network: SimulatedNetwork
    epochs: abstraction.Epochs
    additions: Additions
    error_without_topic: Callable[[int], spec.Error]
    """The error of a broker that does not know the topic."""
    fetches: dict[spec.FetchRequest, Frame] = attrs.field(factory=dict)
    fetch_responses: dict[spec.FetchResponse, Frame] = attrs.field(factory=dict)
    alters: dict[spec.AlterPartitionRequest, Frame] = attrs.field(factory=dict)
    alter_responses: dict[spec.AlterPartitionResponse, Frame] = attrs.field(factory=dict)
    _latest: dict[spec.FetchRequest, tuple[int, int]] = attrs.field(factory=dict)
    """Of equal fetches, the (connection, correlation id) of the one that was sent last."""
    _requests: dict[tuple[int, int], Any] = attrs.field(factory=dict)
    """(connection, correlation id) -> the request: a fetch as the specification's, a proposal as the core's."""
    _proposed_to: dict[int, int] = attrs.field(factory=dict)
    """Connection -> epoch of the controller that it leads to."""
    _seen: dict[int, Frame] = attrs.field(factory=dict)

    def sort_in(self, state: spec.State, controller_epoch: int) -> None:
        """Add the frames that are new, and remove those that are gone."""
        present = {id(frame): frame for frame in self.network.in_flight}
        for messages in (self.fetches, self.fetch_responses, self.alters, self.alter_responses):
            _forget(messages, present)
        for frame in list(present.values()):
            if id(frame) not in self._seen:
                self._sort_in(frame, state, controller_epoch)
        self._seen = {id(frame): frame for frame in self.network.in_flight}

    def _sort_in(self, frame: Frame, state: spec.State, controller_epoch: int) -> None:
        place = frame.connection_id, frame.correlation_id
        if frame.is_request and frame.api_key == ApiKey.FETCH:
            request = self._fetch(frame)
            if place not in self._requests:
                self._latest[request] = place
            self._requests[place] = request
            self._keep(self.fetches, request, frame)
        elif frame.is_request:
            proposal = self._proposal(frame)
            self._requests[place] = proposal
            self._proposed_to.setdefault(frame.connection_id, controller_epoch)
            self._keep(self.alters, abstraction.alter_partition_request(proposal, self.epochs), frame)
        elif frame.api_key == ApiKey.FETCH:
            request = self._requests[place]
            if request in state.replicas[request.follower].outstanding:
                self._keep(self.fetch_responses, self._fetch_response(request, frame, state), frame)
            else:
                self.network.drop(frame)
        else:
            self._keep(self.alter_responses, self._alter_response(self._requests[place], frame, state), frame)

    def _keep(self, messages: dict[Message, Frame], message: Message, frame: Frame) -> None:
        older = messages.pop(message, None)
        if older is not None and older in self.network.in_flight:
            self.network.drop(older)
        messages[message] = frame

    def _fetch(self, frame: Frame) -> spec.FetchRequest:
        (read,) = partition_reads(message_of(frame))
        assert read.follower is not None, "only followers' fetches are held"
        return abstraction.fetch_request(read.follower, broker_id(frame.destination), self.epochs, self.additions)

    def _fetch_response(self, request: spec.FetchRequest, frame: Frame, state: spec.State) -> spec.FetchResponse:
        """The response as the specification has it, from which the records below a log start are copied."""
        (response,) = partition_responses(message_of(frame)).values()
        if response.error in WITHOUT_METADATA:
            return spec.FetchResponse(request, self.error_without_topic(request.leader))
        records = records_of(in_memory(response.records)) if response.error is ErrorCode.none else ()
        return abstraction.fetch_response(
            request, response, records, self.additions, state.replicas[request.leader].log
        )

    def _proposal(self, frame: Frame) -> AlterPartitionRequest:
        message = message_of(frame)
        (data,) = message.topics[0].partitions
        return AlterPartitionRequest(
            broker_id=message.broker_id,
            broker_epoch=message.broker_epoch,
            leader_epoch=data.leader_epoch,
            partition_epoch=data.partition_epoch,
            isr=tuple((int(m.broker_id), int(m.broker_epoch)) for m in data.new_isr_with_epochs),
        )

    def _alter_response(
        self, request: AlterPartitionRequest, frame: Frame, state: spec.State
    ) -> spec.AlterPartitionResponse:
        """The response as the specification has it; a refusal lacks the ISR, which is copied from there."""
        response = core_response_of(message_of(frame), (), self._proposed_to[frame.connection_id])
        if response.registration is not None:
            return abstraction.alter_partition_response(request, response)
        refused = spec.AlterPartitionResponse(
            request.broker_id,
            request.leader_epoch,
            request.partition_epoch,
            abstraction.error(response.error),
            (),
            spec.NONE,
            response.controller_epoch,
        )
        for expected in state.network.alter_responses:
            completed = attrs.evolve(refused, isr=expected.isr, partition_epoch=expected.partition_epoch)
            if expected == completed and expected not in self.alter_responses:
                return expected
        return refused

    def is_awaited(self, response: spec.FetchResponse) -> bool:
        """Whether a response is that to the latest of equal fetches, and not a second one to an earlier fetch."""
        frame = self.fetch_responses[response]
        return self._latest[response.request] == (frame.connection_id, frame.correlation_id)

    def is_ending(self, follower: int, leader: int) -> bool:
        """Whether a response is on its way whose sender has already closed the connection."""
        link = f"{BROKER}{leader}", f"{BROKER}{follower}"
        return any(
            (frame.source, frame.destination) == link and frame.end.connection.server.closed
            for frame in self.fetch_responses.values()
        )

    def without_controller(self) -> set[int]:
        """The leaders to which a response is on its way from a controller that has closed the connection."""
        return {
            broker_id(frame.destination)
            for frame in self.alter_responses.values()
            if frame.end.connection.server.closed
        }

    def cut(self, frames: Iterable[Frame]) -> None:
        """Break the connections on which these frames travel; what is on them is lost."""
        for connection in {frame.connection_id: frame.end.connection for frame in frames}.values():
            for end in (connection.client, connection.server):
                self.network.lose_frames_to(end)
                end.forget_unread()
                end.end_of_stream()


def limited(frame: Frame, max_bytes: int) -> Frame:
    """A held fetch, changed to ask for at most `max_bytes` bytes."""
    request = decode_request(memoryview(frame.data)[4:])
    message = _as_any(request.message)
    message.topics[0].partitions[0].max_bytes = max_bytes
    frame.data = encode_request(message, frame.correlation_id, request.client_id)
    return frame


def _forget(messages: dict[Any, Frame], present: dict[int, Frame]) -> None:
    for message in [message for message, frame in messages.items() if id(frame) not in present]:
        del messages[message]


def message_of(frame: Frame) -> Any:
    """A frame's message, decoded: one of kio's classes. Raises MalformedMessageError when it cannot be decoded."""
    body = memoryview(frame.data)[4:]
    if frame.is_request:
        return decode_request(body).message
    return decode_response(body, frame.api_key, frame.api_version).message


def _as_any(message: object) -> Any:
    """kio's messages have one class for each version, too many to name."""
    return message
