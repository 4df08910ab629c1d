"""Apache Thrift's compact protocol, read as it comes: a struct is a dict of its fields by their numbers.

No schema: the caller knows which type a field should have. Every length is bounded by the bytes that are left.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Any

Struct = dict[int, Any]
"""Fields by number: bool, int, float, bytes, a list of one of them, or a struct."""

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 32
_LONGEST_VARINT = 70
"""Bits in the bytes of the longest number, with those that say whether it goes on left out."""


class NotCompactError(ValueError):
    """The bytes are no struct of the compact protocol."""


def read_struct(content: bytes) -> Struct:
    """The struct that begins the bytes. Raises NotCompactError."""
    try:
        return _Reader(content).struct(0)
    except IndexError:
        raise NotCompactError("it goes on behind its end") from None


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def struct(self, depth: int) -> Struct:
        content, fields, number = self.content, Struct(), 0
        while True:
            head = content[self.at]
            self.at += 1
            kind = head & 15
            if not head:
                return fields
            step = head >> 4
            number = number + step if step else self.number()
            if number in fields:
                raise NotCompactError(f"field {number} is there twice")
            fields[number] = kind == _TRUE if kind <= _FALSE else self.value(kind, depth)

    def value(self, kind: int, depth: int) -> Any:
        if _I16 <= kind <= _I64:
            return self.number()
        if kind == _BINARY:
            return self.binary()
        if depth > _DEEPEST:
            raise NotCompactError("structs lie in structs without an end")
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self.list(depth + 1)
        if kind == _BYTE:
            self.at += 1
            return self.content[self.at - 1]
        if kind == _DOUBLE and self.at + 8 <= len(self.content):
            self.at += 8
            return unpack_from("<d", self.content, self.at - 8)[0]
        raise NotCompactError(f"a value has type {kind}")

    def list(self, depth: int) -> list[Any]:
        head = self.content[self.at]
        self.at += 1
        size, kind = head >> 4, head & 15
        if size == 15:
            size = self.varint()
        if size > len(self.content) - self.at:
            raise NotCompactError(f"a list of {size} is longer than what is left")
        if _I16 <= kind <= _I64:
            return [self.number() for _ in range(size)]
        if kind <= _FALSE:
            self.at += size
            return [byte == _TRUE for byte in self.content[self.at - size : self.at]]
        return [self.value(kind, depth) for _ in range(size)]

    def binary(self) -> bytes:
        size = self.varint()
        begins = self.at
        self.at += size
        if self.at > len(self.content):
            raise NotCompactError(f"{size} bytes are more than what is left")
        return self.content[begins : self.at]

    def number(self) -> int:
        folded = self.varint()
        return (folded >> 1) ^ -(folded & 1)

    def varint(self) -> int:
        byte = self.content[self.at]
        self.at += 1
        if byte < 128:
            return byte
        found, shift = byte & 127, 7
        while True:
            byte = self.content[self.at]
            self.at += 1
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift >= _LONGEST_VARINT:
                raise NotCompactError("a number has no end")
