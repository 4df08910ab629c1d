"""Requests and responses as bytes: header, body, and which header goes with which body.

A request is header and body; the header names API and version and carries a correlation id. A response begins with the
same correlation id and does not say what it answers, so that whoever reads one must know the request. Flexible versions
(KIP-482) have headers with tagged fields; ApiVersions answers always have header version 0 (KIP-511), for the client
does not know yet what the broker speaks. kio's classes know which header is theirs.

Readers and writers of a class are made once and kept.
"""

from __future__ import annotations

import io
import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from impl.wire.apis import ApiKey, UnknownApiError, canonical_version, request_class, response_class
from impl.wire.frames import Payload as Bytes
from impl.wire.versions import convert

if TYPE_CHECKING:
    from kio.serial.readers import Reader
    from kio.serial.writers import Writer
    from kio.static.protocol import Payload

_REQUEST_HEAD = struct.Struct(">hhi")
_FRAMED_REQUEST_HEAD = struct.Struct(">ihhi")
_FRAMED_RESPONSE_HEAD = struct.Struct(">ii")
_CORRELATION_ID = struct.Struct(">i")
_LENGTH = struct.Struct(">i")
_NO_TAGS: Final = b"\x00"


class MalformedMessageError(Exception):
    """Bytes that are not the message they should be."""


@attrs.frozen
class Request:
    """A decoded request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any
    """kio's request class of this API and version."""


@attrs.frozen
class Response:
    """A decoded response."""

    correlation_id: int
    message: Any
    """kio's response class of the API and version that were asked for."""


@cache
def _reader(message_class: type[Payload]) -> Reader[Payload]:
    from kio.serial import entity_reader

    return entity_reader(message_class)


@cache
def _writer(message_class: type[Payload]) -> Writer[Payload]:
    from kio.serial import entity_writer

    return entity_writer(message_class)


@cache
def _header_version(message_class: type[Payload]) -> int:
    return int(message_class.__header_schema__.__version__)  # type: ignore[attr-defined]


def encode_request(message: Payload, correlation_id: int, client_id: str | None) -> bytes:
    """The whole frame of a request, its length prefix included."""
    buffer = io.BytesIO()
    buffer.write(_FRAMED_REQUEST_HEAD.pack(0, message.__api_key__, message.__version__, correlation_id))
    if client_id is None:
        buffer.write(b"\xff\xff")
    else:
        encoded = client_id.encode()
        buffer.write(struct.pack(">h", len(encoded)) + encoded)
    if _header_version(type(message)) >= 2:
        buffer.write(_NO_TAGS)
    return _framed(message, buffer)


def encode_response(message: Payload, correlation_id: int) -> bytes:
    """The whole frame of a response, its length prefix included."""
    buffer = io.BytesIO()
    buffer.write(_FRAMED_RESPONSE_HEAD.pack(0, correlation_id))
    if _header_version(type(message)) >= 1:
        buffer.write(_NO_TAGS)
    return _framed(message, buffer)


def _framed(message: Payload, buffer: io.BytesIO) -> bytes:
    _writer(type(message))(buffer, message)
    view = buffer.getbuffer()
    _LENGTH.pack_into(view, 0, len(view) - _LENGTH.size)
    view.release()
    return buffer.getvalue()


def peek_request(frame: Bytes) -> tuple[int, int, int]:
    """(api key, version, correlation id) of a request. Raises MalformedMessageError."""
    try:
        return _REQUEST_HEAD.unpack_from(frame)
    except struct.error:
        raise MalformedMessageError(f"a request of {len(frame)} bytes is shorter than its header") from None


def decode_request(frame: Bytes) -> Request:
    """Decode a request (without its length prefix). Raises MalformedMessageError."""
    api_key, version, correlation_id = peek_request(frame)
    try:
        message_class = request_class(api_key, version)
    except UnknownApiError as error:
        raise MalformedMessageError(str(error)) from None
    client_id, body = _after_request_header(frame, flexible=_header_version(message_class) >= 2)
    return Request(api_key, version, correlation_id, client_id, _decode(message_class, frame, body))


def decode_canonical_request(frame: Bytes) -> Request:
    """Decode a request of any version, its message lifted to the canonical one. Raises MalformedMessageError."""
    request = decode_request(frame)
    target = request_class(request.api_key, canonical_version(request.api_key))
    if type(request.message) is target:
        return request
    return attrs.evolve(request, message=convert(request.message, target))


def encode_lowered_response(message: Payload, version: int, correlation_id: int) -> bytes:
    """The whole frame of an answer in the version that the peer asked in; `message` is in the canonical one."""
    if message.__version__ != version:
        message = convert(message, response_class(message.__api_key__, version))
    return encode_response(message, correlation_id)


def decode_response(frame: Bytes, api_key: int, api_version: int) -> Response:
    """Decode the answer to a request of this API and version, without its length. Raises MalformedMessageError."""
    try:
        message_class = response_class(api_key, api_version)
    except UnknownApiError as error:
        raise MalformedMessageError(str(error)) from None
    correlation_id = response_correlation_id(frame)
    body = _CORRELATION_ID.size
    if _header_version(message_class) >= 1:
        body = _after_tags(frame, body)
    return Response(correlation_id, _decode(message_class, frame, body))


def response_correlation_id(frame: Bytes) -> int:
    """The correlation id of a response. Raises MalformedMessageError."""
    if len(frame) < _CORRELATION_ID.size:
        raise MalformedMessageError(f"a response of {len(frame)} bytes is shorter than its header")
    return int(_CORRELATION_ID.unpack_from(frame)[0])


def _after_request_header(frame: Bytes, *, flexible: bool) -> tuple[str | None, int]:
    """The client id, and where the body begins."""
    from kio.serial.errors import SerialError
    from kio.serial.readers import read_nullable_legacy_string

    start = _REQUEST_HEAD.size
    try:
        client_id, size = read_nullable_legacy_string(frame, start)
    except (SerialError, ValueError) as error:
        raise MalformedMessageError(f"the client id of a request cannot be read: {error}") from error
    return client_id, _after_tags(frame, start + size) if flexible else start + size


def _after_tags(frame: Bytes, position: int) -> int:
    """Skip a header's tagged fields; none are known."""
    from kio.serial.errors import SerialError
    from kio.serial.readers import read_unsigned_varint

    if len(frame) > position and frame[position] == 0:
        return position + 1
    try:
        count, size = read_unsigned_varint(frame, position)
        position += size
        for _ in range(count):
            for _tag_then_length in range(2):
                value, size = read_unsigned_varint(frame, position)
                position += size
            position += value
            if position > len(frame):
                raise MalformedMessageError("a header's tagged field ends beyond the frame")
    except (SerialError, ValueError) as error:
        raise MalformedMessageError(f"the tagged fields of a header cannot be read: {error}") from error
    return position


def _decode(message_class: type[Payload], frame: Bytes, position: int) -> Payload:
    try:
        message, size = _reader(message_class)(frame, position)
    except Exception as error:
        raise MalformedMessageError(f"{message_class.__name__} cannot be decoded: {error}") from error
    if position + size != len(frame):
        extra = len(frame) - position - size
        raise MalformedMessageError(f"{extra} bytes are left over behind {message_class.__name__}")
    return message


def api_name(api_key: int) -> str:
    """The API's name, for a message to a person."""
    try:
        return ApiKey(api_key).name
    except ValueError:
        return f"API {api_key}"
