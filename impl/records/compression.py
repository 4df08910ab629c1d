"""The five compressions of record batches, as Kafka's clients write and read them.

A few bytes can stand for gigabytes, so a producer's records are decompressed up to a multiple of what came
(`most_decompressed`): what is larger is refused like damaged bytes, with the memory that had been asked for by then.
Kafka has no such limit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import cramjam

from tidegauge.impl.records.batches import Buffer, Compression, CorruptRecordError

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 << 10
_BLOCK_LENGTH = struct.Struct(">i")
ALWAYS_DECOMPRESSED_BYTES = 16 << 20
"""What one batch's records may take, however few bytes they came in: clients make batches of a few MiB at most."""
DECOMPRESSION_RATIO = 64
"""Beyond that, so many times the bytes in which they came."""
MAX_DECOMPRESSED_BYTES = 128 << 20
"""And never more than this."""
_FIRST_GUESS = 64 << 10
_SMALL_BLOCK = 4 << 10
"""What a snappy block counts for at least: one of no bytes takes time too. Writers make blocks of 32 KiB."""
_TOO_SMALL = "failed to write whole buffer"


def compress(compression: Compression, data: Buffer, level: int | None = None) -> bytes:
    """The records section of a batch, compressed; the level, where the codec has any, is the library's by default."""
    if level is None or compression not in _LEVELLED:
        return _COMPRESSORS[compression](data)
    return bytes(_LEVELLED[compression](data, level))


def most_decompressed(size: int) -> int:
    """Bytes that the records section of a batch may take, of which so many came."""
    return min(MAX_DECOMPRESSED_BYTES, max(ALWAYS_DECOMPRESSED_BYTES, DECOMPRESSION_RATIO * size))


def decompress(compression: Compression, data: Buffer, most: int | None = None) -> bytes:
    """The records section of a batch, as it was; of a batch that was stored, `MAX_DECOMPRESSED_BYTES` of it.

    Raises CorruptRecordError when the bytes are not what they should be, or would take more than `most`.
    """
    limit = MAX_DECOMPRESSED_BYTES if most is None else most
    payload = decompress_within(compression, data, limit)
    if payload is None:
        raise CorruptRecordError(
            f"{len(data)} bytes in one batch are records of more than {limit} bytes: send smaller batches"
        )
    return payload


def decompress_within(compression: Compression, data: Buffer, room: int) -> bytes | None:
    """The same if it takes no more than `room` bytes; None if it takes more. Raises CorruptRecordError."""
    try:
        return _DECOMPRESSORS[compression](data, room)
    except (cramjam.DecompressionError, struct.error) as error:
        raise CorruptRecordError(
            f"{len(data)} bytes that {compression.name.lower()} cannot decompress: {error}"
        ) from None


def _bounded(decompress_into: Callable[[Buffer, bytearray], int]) -> Callable[[Buffer, int], bytes | None]:
    """Decompression into a buffer that grows as far as it may."""

    def decompress(data: Buffer, most: int) -> bytes | None:
        room = min(most, max(_FIRST_GUESS, 4 * len(data)))
        while True:
            buffer = bytearray(room)
            try:
                return bytes(memoryview(buffer)[: decompress_into(data, buffer)])
            except cramjam.DecompressionError as error:
                if _TOO_SMALL not in str(error):
                    raise
            if room == most:
                return None
            room = min(most, 4 * room)

    return decompress


def _compress_snappy(data: Buffer) -> bytes:
    """Snappy blocks in the framing of the xerial library, which Kafka's Java clients expect."""
    parts = [_XERIAL_MAGIC, _XERIAL_VERSIONS]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, most: int) -> bytes | None:
    """Framed by xerial, or one bare block, as librdkafka writes it."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return bytes(cramjam.snappy.decompress_raw(data)) if cramjam.snappy.decompress_raw_len(data) <= most else None
    parts: list[bytes] = []
    size = 0
    position = len(_XERIAL_MAGIC) + len(_XERIAL_VERSIONS)
    while position < len(data):
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise CorruptRecordError(f"a snappy block of {length} bytes where {len(data) - position} are left")
        block = data[position : position + length]
        size += max(_SMALL_BLOCK, cramjam.snappy.decompress_raw_len(block))
        if size > most:
            return None
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        position += length
    return b"".join(parts)


_COMPRESSORS: dict[Compression, Callable[[Buffer], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
    Compression.SNAPPY: _compress_snappy,
    Compression.LZ4: lambda data: bytes(cramjam.lz4.compress(data)),
    Compression.ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}
_LEVELLED: dict[Compression, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: lambda data, level: bytes(cramjam.gzip.compress(data, level if level >= 0 else None)),
    Compression.LZ4: lambda data, level: bytes(cramjam.lz4.compress(data, level)),
    Compression.ZSTD: lambda data, level: bytes(cramjam.zstd.compress(data, level)),
}
_DECOMPRESSORS: dict[Compression, Callable[[Buffer, int], bytes | None]] = {
    Compression.NONE: lambda data, most: bytes(data) if len(data) <= most else None,
    Compression.GZIP: _bounded(cramjam.gzip.decompress_into),
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _bounded(cramjam.lz4.decompress_into),
    Compression.ZSTD: _bounded(cramjam.zstd.decompress_into),
}
