"""No bit of a Parquet file that is flipped ends a process, changes a verdict, or is told without the file's name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import files
from tidegauge.linearizability.arrow import TOPICS, TOPICS_CHECKSUM, HistoryError, to_arrow
from tidegauge.linearizability.check import check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.parquet import open_parquet
from tidegauge.linearizability.parquet_footer import DamagedParquetError, footer_of
from tidegauge.linearizability.thrift_compact import NotCompactError, read_struct
from tidegauge.model_tests.amounts import stride
from tidegauge.model_tests.linearizability import flips

COLUMNS = ("history", "meta", "values", "transaction", "found")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Six histories in two row groups."""
    ((operations, _),) = generate(6, 12, 7, 0.3)
    files.write(tmp_path / "small.parquet", operations, row_group=40)
    return tmp_path / "small.parquet"


def judged(path: Path) -> object:
    """What `tidegauge check` says of a file."""
    operations, malformed = files.read_sound(path)
    verdicts = check(operations)
    told = [(row.row, row.history, row.reason) for row in malformed]
    return verdicts.table().to_pylist(), verdicts.anomaly_table().to_pylist(), told


def one(path: Path, history: int = 4) -> object:
    """What it says with --history."""
    operations, _ = files.read_sound(path, files.row_groups_of(path, history))
    return check(operations.take(np.flatnonzero(operations.history == history))).table().to_pylist()


def types_of(path: Path) -> list[flips.Bit]:
    """Every bit about the names of some columns: their types, of the schema and of the row groups, and statistics."""
    content, footer = path.read_bytes(), flips.footer_of(path)
    ends = [content.index(name.encode(), footer.start) for name in COLUMNS]
    ends += [content.rindex(name.encode(), footer.start, content.index(TOPICS)) for name in COLUMNS]
    return flips.bits_of(place for end in ends for place in range(end - 10, end + 60) if place in footer)


@pytest.mark.parametrize("read", [judged, one])
def test_each_bit_of_a_footer_is_told_or_changes_nothing(small: Path, read: flips.Read) -> None:
    bits = types_of(small)[:: stride(11)] + flips.bits_of(flips.footer_of(small), stride(199))
    found = flips.outcomes(small, dict.fromkeys(bits), lambda: read(small), (HistoryError,))
    assert not flips.bad(found)
    assert sum(kind == flips.TOLD for kind, _ in found.values()) > len(found) // 2


def test_no_bit_of_the_statistics_of_histories_hides_one(small: Path) -> None:
    """Those of the first row group say from 0 to 3, and history 3 is in it: a flipped bit says from 0 to 2."""
    content = small.read_bytes()
    ranges = [at for at in flips.footer_of(small) if content[at : at + 8] == (3).to_bytes(8, "little")]
    bits = flips.bits_of(place for at in ranges for place in range(at, at + 8))
    found = flips.outcomes(small, dict.fromkeys(bits), lambda: one(small, 3), (HistoryError,))
    assert not flips.bad(found)
    assert sum(kind == "same" for kind, _ in found.values()) > 8


def test_each_bit_of_pages_and_their_headers_is_told_or_changes_nothing(small: Path) -> None:
    bits = flips.bits_of(range(flips.footer_of(small).start), stride(199))
    found = flips.outcomes(small, bits, lambda: judged(small), (HistoryError,))
    assert not flips.bad(found)
    assert sum(kind == flips.TOLD for kind, _ in found.values()) > len(found) // 2


def test_a_crash_a_hang_another_verdict_and_no_name_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "eight"
    path.write_bytes(bytes(8))
    monkeypatch.setattr(flips, "LONGEST", 4)

    def read() -> int:
        match path.read_bytes().find(1):
            case 1:
                os.abort()
            case 2:
                signal.pause()
            case 3:
                raise HistoryError("something is wrong")
            case 4:
                raise HistoryError(f"{path}: something is wrong")
            case 5:
                raise KeyError
            case 6:
                bytearray(b"x" * (300 << 20))
            case 7:
                return 1
        return 0

    found = flips.outcomes(path, [(place, 0) for place in range(8)], read, (HistoryError,))
    kinds = [kind for kind, _ in found.values()]
    crashed = ["crash", "crash", "no name", "told", "another error", "memory", "another verdict"]
    assert kinds == ["same", *crashed]
    assert path.read_bytes() == bytes(8)


def test_a_footer_says_what_pyarrow_says(small: Path) -> None:
    about = pq.read_metadata(small)
    with open_parquet(pafs.LocalFileSystem(), str(small)) as table:
        footer = table.footer
        assert table.extremes(0, "history") == (0, 3)
    assert [column.path for column in footer.columns] == [about.schema.column(n).path for n in range(about.num_columns)]
    for number, group in enumerate(footer.row_groups):
        assert group.rows == about.row_group(number).num_rows
        for place, chunk in enumerate(group.chunks):
            other = about.row_group(number).column(place)
            assert (chunk.values, chunk.nulls) == (other.num_values, other.statistics.null_count)
            assert (chunk.least is not None) == other.statistics.has_min_max


@pytest.mark.parametrize(
    ("column", "has_two_schemas", "why"),
    [
        *(
            (name, True, f"its two schemas differ about nulls in column {name}")
            for name in ("history", "offset", "offsets")
        ),
        ("transaction", False, "72 nulls in column transaction, which can have none"),
    ],
)
def test_a_column_that_may_have_nulls_or_none_by_a_flipped_bit_is_told(
    column: str, has_two_schemas: bool, why: str, small: Path
) -> None:
    """Pages do not say whether they have levels that tell nulls: read the other way, they have other values."""
    pq.write_table(pq.read_table(small), small, store_schema=has_two_schemas)
    content, name = bytearray(small.read_bytes()), bytes([0x18, len(column)]) + column.encode()
    place = content.index(name, flips.footer_of(small).start) - 1
    assert content[place] in (0, 2), "REQUIRED and OPTIONAL, folded"
    content[place] ^= 2
    small.write_bytes(content)
    with pytest.raises(HistoryError, match=rf"small\.parquet: the file is damaged .*{why}"):
        judged(small)


def test_names_of_topics_that_are_lost_or_changed_are_told(tmp_path: Path) -> None:
    ((operations, _),) = generate(6, 12, 7, 0.3)
    table, path = to_arrow(operations), tmp_path / "h.parquet"
    metadata = dict(table.schema.metadata)
    for wrong in ({TOPICS_CHECKSUM: metadata[TOPICS_CHECKSUM]}, metadata | {TOPICS: b'["tonic"]'}):
        pq.write_table(table.replace_schema_metadata(wrong), path)
        with pytest.raises(HistoryError, match=r"h\.parquet: the file is damaged \(.*topics' names"):
            files.read(path)
    pq.write_table(table.replace_schema_metadata({TOPICS: metadata[TOPICS]}), path)
    assert list(files.read(path)) == list(operations), "other writers give no checksum"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x15", "goes on behind its end"),
        (b"\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", "a number has no end"),
        (b"\x18\x7fab", "127 bytes are more than"),
        (b"\x19\xfc\xff\x7f\x00", "a list of 16383 is longer"),
        (b"\x15\x02\x05\x02\x04\x00", "field 1 is there twice"),
        (b"\x1b\x00", "a value has type 11"),
        (b"\x1c" * 100, "structs lie in structs"),
        (b"\x19\x19" + b"\x19" * 100, "structs lie in structs"),
    ],
)
def test_bytes_that_are_no_struct_are_refused(content: bytes, why: str) -> None:
    with pytest.raises(NotCompactError, match=why):
        read_struct(content)
    with pytest.raises(DamagedParquetError, match=why):
        footer_of(content, 100)


def test_a_struct_is_read_by_numbers_of_fields() -> None:
    content = b"\x15\x03\x11\x12\x18\x02ab\x29\x25\x02\x04\x1c\x15\x01\x00\x17" + b"\x00" * 6 + b"\xf0\x3f\x13\x05\x00"
    assert read_struct(content) == {1: -2, 2: True, 3: False, 4: b"ab", 6: [1, 2], 7: {1: -1}, 8: 1.0, 9: 5}


def test_a_row_group_of_another_file_is_refused(tmp_path: Path) -> None:
    """As `_metadata` files have them: their pages are not here."""
    ((operations, _),) = generate(6, 12, 7, 0.3)
    path, collected = tmp_path / "a.parquet", list[pq.FileMetaData]()
    pq.write_table(to_arrow(operations), path, metadata_collector=collected)
    about = pq.read_metadata(path)
    about.set_file_path("b.parquet")
    about.write_metadata_file(tmp_path / "all.parquet")
    with pytest.raises(HistoryError, match=r"all\.parquet: the file is damaged .*column history in another file"):
        files.read(tmp_path / "all.parquet")


def test_files_of_other_writers_are_read(tmp_path: Path) -> None:
    """Types, encodings and statistics as other writers choose them."""
    ((operations, _),) = generate(60, 12, 7, 0.3)
    path, table = tmp_path / "h.parquet", to_arrow(operations)
    number = table.schema.get_field_index("topic")
    names = pa.array([operations.topics[code] for code in operations.topic.tolist()])
    named = table.set_column(number, "topic", names.dictionary_encode())
    nullable = pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    lists = {name: pa.large_list(pa.int32()) for name in ("values", "offsets")}
    narrow = pa.schema([field.with_type(lists.get(field.name, field.type)) for field in nullable], nullable.metadata)
    texts = table.set_column(number, "topic", names.cast(pa.large_string()))
    nested = pa.array([{"host": "a", "ports": [1, 2]}] * len(table))
    for rows, options in (
        (table.set_column(0, "history", table.column(0).cast(pa.int32())), {"version": "1.0"}),
        (table.set_column(0, "history", table.column(0).cast(pa.uint32())), {"version": "1.0"}),
        (table.set_column(0, "history", table.column(0).cast(pa.uint16())), {"data_page_version": "2.0"}),
        (named, {"compression": "gzip", "use_dictionary": ["topic"]}),
        (texts, {"compression": "brotli", "store_schema": False}),
        (table.cast(nullable), {"write_statistics": False}),
        (table.cast(narrow), {"use_compliant_nested_type": False, "data_page_size": 64}),
        (table.append_column("_where", nested), {"write_page_index": True, "compression": "none"}),
    ):
        pq.write_table(rows, path, row_group_size=100, **options)
        assert list(files.read(path)) == list(operations), (rows.schema, options)
        assert files.row_groups_of(path, 20) in ([2], [0, 1, 2, 3, 4, 5, 6, 7]), (rows.schema, options)
