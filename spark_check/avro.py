"""Read an Avro object container file: as much of Avro 1.12 as the manifests of Iceberg need.

The schema is the writer's, in the file. Records become dicts; logical types are left as what they are stored as.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from struct import unpack_from
from typing import Any

from tidegauge.linearizability.json_objects import each_name_once

_MAGIC = b"Obj\x01"
_SYNC = 16
_LONGEST_VARINT = 70
_DEEPEST = 64

Read = Callable[[], Any]


class NotAvroError(ValueError):
    """The file is not what its schema says."""


def records(content: bytes) -> Iterator[Any]:
    """Every object of a file. Raises NotAvroError."""
    try:
        yield from _records(content)
    except NotAvroError:
        raise
    except (IndexError, KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
        raise NotAvroError(f"it is damaged ({error!r})") from error


def _records(content: bytes) -> Iterator[Any]:
    if not content.startswith(_MAGIC):
        raise NotAvroError("it does not begin as Avro does")
    reader = _Reader(content, len(_MAGIC))
    said = reader.map(reader.binary)
    sync = reader.take(_SYNC)
    schema = json.loads(said["avro.schema"], object_pairs_hook=each_name_once)
    unpacked = _codec(said.get("avro.codec", b"null").decode())
    while reader.at < len(content):
        count = reader.long()
        block = _Reader(unpacked(reader.binary()), 0)
        read = block.of(schema)
        if count > max(1, len(block.content)):
            raise NotAvroError(f"a block of {len(block.content)} bytes has no room for {count} objects")
        for _ in range(count):
            yield read()
        if block.at != len(block.content) or reader.take(_SYNC) != sync:
            raise NotAvroError("a block does not end where it should")


def _codec(name: str) -> Callable[[bytes], bytes]:
    """How blocks are unpacked."""
    if name == "null":
        return lambda block: block
    if name == "deflate":
        return lambda block: zlib.decompress(block, -15)
    if name not in ("snappy", "zstandard"):
        raise NotAvroError(f"its codec is {name}, which is not known here")
    import cramjam

    def unpacked(block: bytes) -> bytes:
        try:
            if name == "snappy":  # a checksum is behind it
                return bytes(cramjam.snappy.decompress_raw(block[:-4]))
            return bytes(cramjam.zstd.decompress(block))
        except cramjam.DecompressionError as error:
            raise NotAvroError(f"a block is damaged ({error})") from error

    return unpacked


class _Reader:
    def __init__(self, content: bytes, at: int) -> None:
        self.content = content
        self.at = at
        self.named: dict[str, Read] = {}

    def of(self, schema: Any, depth: int = 0) -> Read:
        """What reads a value of a schema."""
        if depth > _DEEPEST:
            raise NotAvroError("its schema has no end")
        if isinstance(schema, list):
            branches = [self.of(one, depth + 1) for one in schema]
            return lambda: self.one_of(branches)()
        if isinstance(schema, str):
            return self.named[schema] if schema in self.named else self.plain(schema)
        kind = schema["type"]
        if kind == "record":
            return self.record(schema, depth)
        if kind == "array":
            item = self.of(schema["items"], depth + 1)
            return lambda: [item() for size in self.blocks() for _ in range(size)]
        if kind == "map":
            value = self.of(schema["values"], depth + 1)
            return lambda: self.map(value)
        if kind == "fixed":
            return self.name(schema, lambda: self.take(schema["size"]))
        if kind == "enum":
            return self.name(schema, lambda: self.one_of(schema["symbols"]))
        return self.of(kind, depth + 1)

    def record(self, schema: Any, depth: int) -> Read:
        fields: list[tuple[str, Read]] = []
        read = self.name(schema, lambda: {name: value() for name, value in fields})
        fields += [(field["name"], self.of(field["type"], depth + 1)) for field in schema["fields"]]
        return read

    def name(self, schema: Any, read: Read) -> Read:
        self.named[schema["name"]] = read
        return read

    def plain(self, kind: str) -> Read:
        return {
            "null": lambda: None,
            "boolean": lambda: self.take(1) == b"\x01",
            "int": self.long,
            "long": self.long,
            "float": lambda: unpack_from("<f", self.take(4))[0],
            "double": lambda: unpack_from("<d", self.take(8))[0],
            "bytes": self.binary,
            "string": lambda: self.binary().decode(),
        }[kind]

    def one_of(self, choices: list[Any]) -> Any:
        number = self.long()
        if number < 0:
            raise NotAvroError(f"choice {number} is none")
        return choices[number]

    def map(self, value: Read) -> dict[str, Any]:
        return {self.binary().decode(): value() for size in self.blocks() for _ in range(size)}

    def blocks(self) -> Iterator[int]:
        """The sizes of the blocks of an array or a map."""
        while size := self.long():
            if size < 0:  # then its bytes come as well
                self.long()
            if abs(size) > len(self.content):
                raise NotAvroError(f"{abs(size)} items are more than the file has room for")
            yield abs(size)

    def take(self, size: int) -> bytes:
        taken = self.content[self.at : self.at + size]
        if size < 0 or len(taken) != size:
            raise NotAvroError("it ends too early")
        self.at += size
        return taken

    def binary(self) -> bytes:
        return self.take(self.long())

    def long(self) -> int:
        found = shift = 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            found |= (byte & 127) << shift
            if byte < 128:
                return (found >> 1) ^ -(found & 1)
            shift += 7
            if shift >= _LONGEST_VARINT:
                raise NotAvroError("a number has no end")
