"""Write Avro, as manifests need it: the other direction of spark_check.avro."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from struct import pack
from typing import Any

import cramjam

SYNC = bytes(range(16))
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda block: block,
    "deflate": lambda block: zlib.compress(block, wbits=-15),
    "snappy": lambda block: bytes(cramjam.snappy.compress_raw(block)) + pack(">I", zlib.crc32(block)),
    "zstandard": lambda block: bytes(cramjam.zstd.compress(block)),
}


def avro_file(schema: Any, rows: Sequence[Any], codec: str = "null", in_block: int = 2) -> bytes:
    """An object container file."""
    about = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    said = _long(len(about)) + b"".join(_binary(name.encode()) + _binary(text) for name, text in about.items()) + b"\0"
    blocks = [rows[at : at + in_block] for at in range(0, len(rows), in_block)]
    packed = [(len(block), PACKED[codec](b"".join(_value(schema, row) for row in block))) for block in blocks]
    return b"Obj\1" + said + SYNC + b"".join(_long(size) + _binary(block) + SYNC for size, block in packed)


def record(name: str, **fields: Any) -> dict[str, Any]:
    """The schema of a record."""
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def _value(schema: Any, value: Any) -> bytes:
    kind = schema if isinstance(schema, str) else schema["type"] if isinstance(schema, dict) else "union"
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return _long(value)
        case "double":
            return pack("<d", value)
        case "float":
            return pack("<f", value)
        case "string":
            return _binary(value.encode())
        case "bytes":
            return _binary(value)
        case "fixed" | "four":  # by its name
            return bytes(value)
        case "enum":
            return _long(schema["symbols"].index(value))
        case "union":  # of null and one other
            place = next(at for at, one in enumerate(schema) if (one == "null") == (value is None))
            return _long(place) + _value(schema[place], value)
        case "array":  # a block that says how many bytes it has
            items = b"".join(_value(schema["items"], one) for one in value)
            return (_long(-len(value)) + _long(len(items)) + items if value else b"") + b"\0"
        case "map":
            items = b"".join(_binary(key.encode()) + _value(schema["values"], one) for key, one in value.items())
            return (_long(len(value)) + items if value else b"") + b"\0"
    return b"".join(_value(field["type"], value[field["name"]]) for field in schema["fields"])


def _binary(content: bytes) -> bytes:
    return _long(len(content)) + content


def _long(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    found = b""
    while left > 127:
        found += bytes([left & 127 | 128])
        left >>= 7
    return found + bytes([left])
