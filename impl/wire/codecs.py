"""Requests and responses as bytes: header, body, and which header goes with which body.

A request is header and body; the header names API and version and carries a correlation id. A response begins with the
same correlation id and does not say what it responds to, so its reader must know the request. Flexible versions
(KIP-482) have headers with tagged fields; ApiVersions responses always have header version 0 (KIP-511), for the client
does not know yet what the broker speaks. kio's classes know which header is theirs.

Readers and writers of a class are made once and kept. Produce and Fetch, which carry the records, are not kio's here:
they have one pair of messages for all versions, and codecs of their own that copy no records.

Bytes behind a message are not looked at, as in Kafka: librdkafka 2.16 sends three too many when it asks for the
metadata of all topics.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tidegauge.impl.records.lazy import LazyRecords, in_memory
from tidegauge.impl.records.slices import Sliced, at_once
from tidegauge.impl.wire import fetch_codec, produce_codec
from tidegauge.impl.wire.apis import (
    BROKER_APIS,
    PRODUCE_SERVED_FROM,
    ApiKey,
    UnknownApiError,
    VersionRange,
    canonical_request_class,
    request_class,
    response_class,
)
from tidegauge.impl.wire.budget import STEP, Budget
from tidegauge.impl.wire.element_limits import most_elements
from tidegauge.impl.wire.entity_reader import entity_reading
from tidegauge.impl.wire.entity_writer import entity_writing
from tidegauge.impl.wire.fetch_messages import FetchRequest, FetchResponse
from tidegauge.impl.wire.fields import DAMAGE, Part, read_nullable_string, skip_tags
from tidegauge.impl.wire.frames import Payload as Bytes
from tidegauge.impl.wire.produce_messages import ProduceRequest, ProduceResponse
from tidegauge.impl.wire.versions import converting, holds

if TYPE_CHECKING:
    from kio.static.protocol import Payload

_REQUEST_HEAD = struct.Struct(">hhi")
_FRAMED_REQUEST_HEAD = struct.Struct(">ihhi")
_FRAMED_RESPONSE_HEAD = struct.Struct(">ii")
_CLIENT_ID_SIZE = struct.Struct(">h")
_CLIENT_ID_AT: Final = _REQUEST_HEAD.size + _CLIENT_ID_SIZE.size
_CORRELATION_ID = struct.Struct(">i")
_LENGTH = struct.Struct(">i")
_NO_TAGS: Final = b"\x00"

_SHORT_BYTES: Final = 1024
"""A request of no more bytes is read at once: it has no more elements than a slice."""

_OWN: Final[Mapping[int, tuple[ModuleType, VersionRange]]] = {
    ApiKey.PRODUCE: (produce_codec, VersionRange(PRODUCE_SERVED_FROM, BROKER_APIS[ApiKey.PRODUCE].highest)),
    ApiKey.FETCH: (fetch_codec, BROKER_APIS[ApiKey.FETCH]),
}
"""APIs whose messages are this project's, their codecs and versions."""
_OWN_RESPONSES: Final = (ProduceResponse, FetchResponse)
_OWN_MESSAGES: Final = (ProduceRequest, FetchRequest, *_OWN_RESPONSES)


class MalformedMessageError(Exception):
    """Bytes that are not the message they should be."""


@attrs.define
class Request:
    """A decoded request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any
    """kio's request class of this API and version; this project's for Produce and Fetch."""


class Response(NamedTuple):
    """A decoded response."""

    correlation_id: int
    message: Any
    """kio's response class of the API and version that were asked for; this project's for Produce and Fetch."""


@attrs.frozen
class EncodedRequest:
    """A request whose body is encoded already (`encoding_request`)."""

    __api_key__: int
    __version__: int
    body: bytes
    """All that comes after the client id."""


@cache
def _header_version(message_class: type[Payload]) -> int:
    return int(message_class.__header_schema__.__version__)  # type: ignore[attr-defined]


def encode_request(message: Any, correlation_id: int, client_id: str | None, *, version: int | None = None) -> bytes:
    """The whole frame of a request, its length prefix included.

    `version` is for messages that have one class for all versions; without it they go in their newest.
    """
    if isinstance(message, EncodedRequest):
        return _whole(_framed(_request_head(message, message.__version__, correlation_id, client_id), [message.body]))
    version = message.__version__ if version is None else version
    head = _request_head(message, version, correlation_id, client_id)
    if isinstance(message, _OWN_MESSAGES):
        codec, _ = _OWN[message.__api_key__]
        if version >= codec.FLEXIBLE_FROM:
            head += _NO_TAGS
        return _whole(_framed(head, codec.encode_request(message, version)))
    if _kio_header_version(message) >= 2:
        head += _NO_TAGS
    return _whole(_framed(head, [at_once(_encoding_body(message, type(message)))]))


def encoding_request(message: Payload) -> Sliced[EncodedRequest]:
    """All of a request but its head, in slices, so that `encode_request` has little to do."""
    tags = _NO_TAGS if _kio_header_version(message) >= 2 else b""
    body = yield from _encoding_body(message, type(message))
    return EncodedRequest(int(message.__api_key__), int(message.__version__), tags + body)


def _request_head(message: Any, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    head = bytearray(_FRAMED_REQUEST_HEAD.pack(0, message.__api_key__, version, correlation_id))
    if client_id is None:
        head += b"\xff\xff"
    else:
        encoded = client_id.encode()
        head += struct.pack(">h", len(encoded)) + encoded
    return head


def encode_response(message: Any, correlation_id: int, *, version: int | None = None) -> bytes:
    """The whole frame of a response, its length prefix included; `version` as in `encode_request`."""
    if isinstance(message, _OWN_RESPONSES):
        return _whole(_own_response(message, message.__version__ if version is None else version, correlation_id))
    return _whole(at_once(_encoding_response(message, type(message), correlation_id)))


def encode_response_parts(message: Any, version: int, correlation_id: int) -> list[Part]:
    """The frame of a response in the version of the request, in parts to be sent one after the other.

    `message` is in the canonical version. Records in it are not copied.
    """
    return at_once(encoding_response(message, version, correlation_id))


def encode_quickly(message: Any, version: int, correlation_id: int) -> list[Part] | None:
    """The same for a response of records, or to records, that is of a few partitions; None for any other."""
    if isinstance(message, ProduceResponse):
        frame = produce_codec.encode_one(message, version, correlation_id)
        if frame is not None:
            return [frame]
    elif isinstance(message, FetchResponse):
        parts = fetch_codec.encode_one(message, version, correlation_id)
        if parts is not None:
            return parts
    if not isinstance(message, _OWN_RESPONSES) or not _is_short(message):
        return None
    return _own_response(message, version, correlation_id)


def encoding_response(message: Any, version: int, correlation_id: int) -> Sliced[list[Part]]:
    """`encode_response_parts`, in slices."""
    if isinstance(message, _OWN_RESPONSES):
        return (yield from _encoding_own_response(message, version, correlation_id))
    spoken, given = response_class(message.__api_key__, version), message.__class__
    if not holds(given, spoken):
        message = yield from converting(message, spoken)
    return (yield from _encoding_response(message, spoken, correlation_id))


def _is_short(message: ProduceResponse | FetchResponse) -> bool:
    """Whether a response has so few elements that it need not be encoded in slices."""
    topics = message.topics
    if len(topics) > 1 or (topics and len(topics[0].partitions) > STEP):
        return False
    aborted = 0
    if topics and isinstance(message, FetchResponse):
        for partition in message.topics[0].partitions:
            if partition.aborted_transactions:
                aborted += len(partition.aborted_transactions)
    return aborted <= STEP


def _own_response(message: ProduceResponse | FetchResponse, version: int, correlation_id: int) -> list[Part]:
    codec, _ = _OWN[message.__api_key__]
    return _framed(_own_head(codec, version, correlation_id), codec.encode_response(message, version))


def _encoding_own_response(
    message: ProduceResponse | FetchResponse, version: int, correlation_id: int
) -> Sliced[list[Part]]:
    codec, _ = _OWN[message.__api_key__]
    head = _own_head(codec, version, correlation_id)
    return _framed(head, (yield from codec.encoding_response(message, version)))


def _own_head(codec: ModuleType, version: int, correlation_id: int) -> bytearray:
    head = bytearray(_FRAMED_RESPONSE_HEAD.pack(0, correlation_id))
    if version >= codec.FLEXIBLE_FROM:
        head += _NO_TAGS
    return head


def _encoding_response(message: Payload, spoken: type[Payload], correlation_id: int) -> Sliced[list[Part]]:
    head = bytearray(_FRAMED_RESPONSE_HEAD.pack(0, correlation_id))
    if _header_version(spoken) >= 1:
        head += _NO_TAGS
    return _framed(head, [(yield from _encoding_body(message, spoken))])


def _kio_header_version(message: Payload) -> int:
    return _header_version(type(message))


def _encoding_body(message: Payload, spoken: type[Payload]) -> Sliced[bytes]:
    buffer = io.BytesIO()
    yield from entity_writing(spoken)(buffer, message)
    return buffer.getvalue()


def _framed(head: bytearray, body: Sequence[Part]) -> list[Part]:
    """Header and body with the length in front; what stands before the first records is one buffer."""
    first = body[0]
    assert not isinstance(first, LazyRecords), "no body begins with records"
    head += first
    size = len(head) - _LENGTH.size
    if len(body) == 1:
        _LENGTH.pack_into(head, 0, size)
        return [head]
    rest = body[1:]
    _LENGTH.pack_into(head, 0, size + sum(map(len, rest)))
    return [head, *rest]


def _whole(parts: Iterable[Part]) -> bytes:
    return b"".join(map(in_memory, parts))


def peek_request(frame: Bytes) -> tuple[int, int, int]:
    """(api key, version, correlation id) of a request. Raises MalformedMessageError."""
    try:
        return _REQUEST_HEAD.unpack_from(frame)
    except struct.error:
        raise MalformedMessageError(f"a request of {len(frame)} bytes is shorter than its header") from None


def decode_request(frame: Bytes) -> Request:
    """Decode a request (without its length prefix). Raises MalformedMessageError."""
    api_key, version, correlation_id = peek_request(frame)
    decoded = decode_quickly(frame, api_key, version) if api_key in _OWN else None
    if decoded is None:
        decoded = at_once(_decoding_request(frame, api_key, version))
    return Request(api_key, version, correlation_id, *decoded)


def decode_canonical_request(frame: Bytes) -> Request:
    """Decode a request of any version, its message lifted to the canonical one. Raises MalformedMessageError."""
    api_key, version, correlation_id = peek_request(frame)
    return Request(api_key, version, correlation_id, *decode_canonical(frame, api_key, version))


def decode_canonical(frame: Bytes, api_key: int, version: int) -> tuple[str | None, Any]:
    """(client id, canonical message) of a request that is of this API and version. Raises MalformedMessageError."""
    return at_once(decoding_canonical(frame, api_key, version))


def decode_quickly(frame: Bytes, api_key: int, version: int) -> tuple[str | None, Any] | None:
    """The same for a request that cannot have many elements; None for any other. Raises MalformedMessageError."""
    own = _OWN.get(api_key)
    if own is None:
        return decode_canonical(frame, api_key, version) if len(frame) <= _SHORT_BYTES else None
    codec, (lowest, highest) = own
    if not lowest <= version <= highest:
        raise _unknown_version(api_key, version, "request")
    view = memoryview(frame)
    client_id, body = _after_request_header(view, version >= codec.FLEXIBLE_FROM)
    try:
        message = codec.decode_quickly(view, body, version)
    except DAMAGE as error:
        raise _undecodable(codec, version, error) from error
    return None if message is None else (client_id, message)


def decoding_canonical(frame: Bytes, api_key: int, version: int) -> Sliced[tuple[str | None, Any]]:
    """`decode_canonical`, in slices: a request may have many elements."""
    if api_key in _OWN:
        return (yield from _decoding_request(frame, api_key, version))
    try:
        spoken, target = request_class(api_key, version), canonical_request_class(api_key)
    except UnknownApiError as error:
        raise MalformedMessageError(str(error)) from None
    if holds(target, spoken):
        return (yield from _decoding_kio_request(frame, api_key, spoken, target))
    client_id, message = yield from _decoding_kio_request(frame, api_key, spoken, spoken)
    return client_id, (yield from converting(message, target))


def _decoding_request(frame: Bytes, api_key: int, version: int) -> Sliced[tuple[str | None, Any]]:
    """(client id, message), in the version that the peer speaks."""
    view = memoryview(frame)
    if api_key in _OWN:
        codec = _own_codec(api_key, version, "request")
        client_id, body = _after_request_header(view, version >= codec.FLEXIBLE_FROM)
        try:
            message, _ = yield from codec.decoding_request(view, body, version)
        except DAMAGE as error:
            raise _undecodable(codec, version, error) from error
        return client_id, message
    try:
        message_class = request_class(api_key, version)
    except UnknownApiError as error:
        raise MalformedMessageError(str(error)) from None
    return (yield from _decoding_kio_request(frame, api_key, message_class, message_class))


def _decoding_kio_request(
    frame: Bytes, api_key: int, spoken: type[Payload], made: type[Payload]
) -> Sliced[tuple[str | None, Any]]:
    client_id, body = _after_request_header(memoryview(frame), _header_version(spoken) >= 2)
    return client_id, (yield from _decoding(spoken, made, frame, body, Budget(most_elements(api_key))))


def decode_response(frame: Bytes, api_key: int, api_version: int) -> Response:
    """Decode the response to a request of this API and version, without its length. Raises MalformedMessageError."""
    return at_once(decoding_response(frame, api_key, api_version))


def decoding_response(frame: Bytes, api_key: int, api_version: int) -> Sliced[Response]:
    """`decode_response`, in slices: a response may have many elements."""
    correlation_id = response_correlation_id(frame)
    body = _CORRELATION_ID.size
    if api_key in _OWN:
        codec = _own_codec(api_key, api_version, "response")
        if api_version >= codec.FLEXIBLE_FROM:
            body = _after_tags(frame, body)
        try:
            message, _ = codec.decode_response(memoryview(frame), body, api_version)
        except DAMAGE as error:
            raise _undecodable(codec, api_version, error) from error
        return Response(correlation_id, message)
    try:
        message_class = response_class(api_key, api_version)
    except UnknownApiError as error:
        raise MalformedMessageError(str(error)) from None
    if _header_version(message_class) >= 1:
        body = _after_tags(frame, body)
    message = yield from _decoding(message_class, message_class, frame, body, Budget(len(frame)))
    return Response(correlation_id, message)


def _own_codec(api_key: int, version: int, kind: str) -> ModuleType:
    codec, (lowest, highest) = _OWN[api_key]
    if not lowest <= version <= highest:
        raise _unknown_version(api_key, version, kind)
    return codec


def _unknown_version(api_key: int, version: int, kind: str) -> MalformedMessageError:
    return MalformedMessageError(f"API key {api_key} has no {kind} of version {version}")


def _undecodable(codec: ModuleType, version: int, error: Exception) -> MalformedMessageError:
    return MalformedMessageError(f"{codec.__name__} cannot decode version {version}: {error}")


def response_correlation_id(frame: Bytes) -> int:
    """The correlation id of a response. Raises MalformedMessageError."""
    if len(frame) < _CORRELATION_ID.size:
        raise MalformedMessageError(f"a response of {len(frame)} bytes is shorter than its header")
    return int(_CORRELATION_ID.unpack_from(frame)[0])


def _after_request_header(view: memoryview, flexible: bool) -> tuple[str | None, int]:
    """The client id, and where the body begins."""
    try:
        (length,) = _CLIENT_ID_SIZE.unpack_from(view, _REQUEST_HEAD.size)
        if 0 <= length <= len(view) - _CLIENT_ID_AT:
            position = _CLIENT_ID_AT + length
            client_id: str | None = str(view[_CLIENT_ID_AT:position], "utf-8")
        else:
            client_id, position = read_nullable_string(view, _REQUEST_HEAD.size, flexible=False)
        if not flexible:
            return client_id, position
        return client_id, position + 1 if view[position] == 0 else skip_tags(view, position)
    except DAMAGE as error:
        raise MalformedMessageError(f"the client id or the tags of a request cannot be read: {error}") from error


def _after_tags(frame: Bytes, position: int) -> int:
    """Skip a header's tagged fields; none are known."""
    try:
        return skip_tags(memoryview(frame), position)
    except DAMAGE as error:
        raise MalformedMessageError(f"the tagged fields of a header cannot be read: {error}") from error


def _decoding(spoken: type[Payload], made: type[Payload], frame: Bytes, position: int, budget: Budget) -> Sliced[Any]:
    try:
        message, _ = yield from entity_reading(spoken, made)(frame, position, budget)
    except Exception as error:
        raise MalformedMessageError(f"{spoken.__name__} cannot be decoded: {error}") from error
    return message


def api_name(api_key: int) -> str:
    """The API's name, for a message to a person."""
    try:
        return ApiKey(api_key).name
    except ValueError:
        return f"API {api_key}"
