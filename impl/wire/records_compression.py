"""The five compressions of record batches, as Kafka's clients write and read them."""

from __future__ import annotations

import struct
from collections.abc import Callable

import cramjam

from impl.wire.records import Buffer, Compression, CorruptRecordError

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 << 10
_BLOCK_LENGTH = struct.Struct(">i")


def compress(compression: Compression, data: Buffer) -> bytes:
    """The records section of a batch, compressed."""
    return _COMPRESSORS[compression](data)


def decompress(compression: Compression, data: Buffer) -> bytes:
    """The records section of a batch, as it was.

    Raises CorruptRecordError when the bytes are not what they should be.
    """
    try:
        return _DECOMPRESSORS[compression](data)
    except (cramjam.DecompressionError, struct.error) as error:
        raise CorruptRecordError(
            f"{len(data)} bytes that {compression.name.lower()} cannot decompress: {error}"
        ) from None


def _compress_snappy(data: Buffer) -> bytes:
    """Snappy blocks in the framing of the xerial library, which Kafka's Java clients expect."""
    parts = [_XERIAL_MAGIC, _XERIAL_VERSIONS]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer) -> bytes:
    """Framed by xerial, or one bare block, as librdkafka writes it."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return bytes(cramjam.snappy.decompress_raw(data))
    parts = []
    position = len(_XERIAL_MAGIC) + len(_XERIAL_VERSIONS)
    while position < len(data):
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise CorruptRecordError(f"a snappy block of {length} bytes where {len(data) - position} are left")
        parts.append(bytes(cramjam.snappy.decompress_raw(data[position : position + length])))
        position += length
    return b"".join(parts)


_COMPRESSORS: dict[Compression, Callable[[Buffer], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
    Compression.SNAPPY: _compress_snappy,
    Compression.LZ4: lambda data: bytes(cramjam.lz4.compress(data)),
    Compression.ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}
_DECOMPRESSORS: dict[Compression, Callable[[Buffer], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: lambda data: bytes(cramjam.gzip.decompress(data)),
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: lambda data: bytes(cramjam.lz4.decompress(data)),
    Compression.ZSTD: lambda data: bytes(cramjam.zstd.decompress(data)),
}
