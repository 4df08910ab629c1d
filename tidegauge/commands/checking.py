"""`tidegauge check`: check recorded histories with the log checker, in this process."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cyclopts import Parameter

from tidegauge.commands.anomaly_page import AnomalyPage
from tidegauge.commands.anomaly_page import shown_path as shown
from tidegauge.commands.outputs import check_folder, check_page, write_text
from tidegauge.commands.recordings import follow_recording, read_recording
from tidegauge.commands.tables import is_table, read_table, table_above, tables_below
from tidegauge.exits import Status, Unusable
from tidegauge.linearizability import edn, files, jsonl
from tidegauge.linearizability.arrow import HistoryError
from tidegauge.linearizability.check import Verdict, Verdicts
from tidegauge.linearizability.check import check as check_operations
from tidegauge.linearizability.coverage import Totals
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.judged import counted
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import MalformedRow, split
from tidegauge.linearizability.plurals import say
from tidegauge.linearizability.tapped.reading import ABOUT, is_recording
from tidegauge.linearizability.transactions.told import Positions, Told, tell
from tidegauge.screen import Screen

PARQUET = ".parquet"
JSON_LINES = (".jsonl", ".ndjson")
NAMED = 3
"""How many partitions that the verdicts do not cover are named."""
EDN = ".edn"
JEPSEN = "history.edn"
"""The file of EDN in the folder of each run of Jepsen's; it has others, which are no histories."""
SUFFIXES = (PARQUET, *JSON_LINES)

Malformed = MalformedRow | jsonl.MalformedLine


@attrs.frozen(eq=False)
class CheckedFile:
    """One file: the verdicts on its histories, and the rows or lines for which some have none."""

    path: Path
    verdicts: Verdicts
    malformed: Sequence[Malformed]
    told: Told
    """What is no verdict on transactions."""
    remarks: Sequence[str] = ()
    """Of the recording of a tap: what is not in its histories."""

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to check."""
        return not len(self.verdicts.histories) and not self.malformed

    def count(self, verdict: Verdict) -> int:
        return int((self.verdicts.verdicts == verdict).sum())


def check(
    *histories: Path,
    level: Literal["kafka", "strict"] = "kafka",
    out: Path | None = None,
    html: Path | None = None,
    history: Annotated[int | None, Parameter(negative="")] = None,
    table_version: int | None = None,
    limit: Annotated[int, Parameter(negative="")] = 20,
    follow: Annotated[bool, Parameter(negative="")] = False,
    window: int | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> Status:
    """Check histories: is what the clients saw a behaviour of a log? Millions: python -m tidegauge.spark_check.

    Histories without a violation end it with 0; what their reads leave open (a partition never declared settled, say)
    is a note, and no failure. A file with rows that can't be checked, or with none at all, ends it with 2: what was
    seen is not known to hold.

    Parameters
    ----------
    histories
        Parquet or JSON lines files (docs/history.md says what is in them), or folders of such files; or a history of
        Jepsen's Kafka workload (.edn), or its store; or the folder of tidegauge tap, or of a table of Delta or Iceberg.
    level
        What a short read proves: as Kafka promises, or strictly.
    out
        Write verdicts.parquet and anomalies.parquet to this folder.
    html
        Write a page to this file: each anomaly as a timeline, with the log at that moment.
    history
        Check this history of each file alone.
    table_version
        Read the table of Delta at this version, that of Iceberg at this snapshot; unless it is given at the newest one.
    limit
        Print at most so many anomalies, and show as many on the page.
    follow
        Check the recording of a tap again and again while it grows, and print each anomaly once; Ctrl-C ends it.
    window
        With --follow, how many of the last operations are looked at together; 100,000 unless it is given.
    json
        Print one JSON document and nothing else.
    """
    screen = Screen("check", json=json)
    if limit < 0:
        raise Unusable(f"--limit {limit}: give how many anomalies to print, from 0")
    if follow:
        wants_more = out is not None or html is not None or history is not None
        return follow_recording(screen, histories, Level(level), window, wants_more=wants_more)
    if window is not None:
        raise Unusable(f"--window {window}: it is for --follow; without it every operation is looked at")
    paths, other = history_files(histories, table_version)
    check_places(out, html)
    page, checked = AnomalyPage(0 if html is None else limit, level), list[CheckedFile]()
    screen.header({"histories": " ".join(map(shown, histories)), "level": level})
    tell_passed_over(screen, other)
    with screen.progress("checking") as advance:
        for number, path in enumerate(paths):
            advance(str(path), number, len(paths))
            read = read_sound(path, history, table_version)
            checked.append(checked_file(path, read, Level(level), limit))
            page.add(shown(path), read[0], checked[-1].verdicts.anomalies)
    show(screen, checked, limit)
    warn(screen, checked, history)
    if out is not None:
        write_tables(screen, checked, out)
    status = status_of(checked)
    if html is not None:
        write_text("--html", html, page_of(page, checked, level, status))
        screen.say(f"the page is at {html}")
    return screen.finish(status, {**document(checked), "passed_over": [shown(path) for path in other]})


def checked_file(
    path: Path, read: tuple[Operations, Sequence[Malformed], Sequence[str]], level: Level, limit: int
) -> CheckedFile:
    """The verdicts on what `read_sound` has read of a file, and at most `limit` of what is told besides."""
    operations, malformed, remarks = read
    verdicts = check_operations(operations, level).detached()
    told = tell(operations, limit if level is Level.KAFKA else 0)
    return CheckedFile(path, verdicts, malformed, told, remarks)


def check_places(out: Path | None, html: Path | None) -> None:
    """Raises Unusable if one of them cannot be written."""
    if out is not None:
        check_folder("--out", out)
    if html is not None:
        check_page("--html", html)


def warn(screen: Screen, checked: Sequence[CheckedFile], history: int | None) -> None:
    """Tell of files that could not be checked as a whole, and what is not in their histories."""
    none = "no operations, so nothing is checked: look at what wrote the file"
    if history is not None:
        none = f"no operations of history {history}, so nothing is checked: name a history that the file has"
    for one in checked:
        if one.is_empty:
            screen.warn(f"{shown(one.path)}: {none}")
        elif one.malformed:
            screen.warn(f"{shown(one.path)}: {left_out(one.malformed)}: look at what wrote them")
        for remark in one.remarks:
            screen.say(f"{shown(one.path)}: {remark}")


def page_of(page: AnomalyPage, checked: Sequence[CheckedFile], level: str, status: Status) -> str:
    """The page with what heads it."""
    facts = {
        "files": f"{len(checked):,}",
        "histories": f"{sum(len(one.verdicts.histories) for one in checked):,}",
        "operations": f"{sum(int(one.verdicts.operations.sum()) for one in checked):,}",
        "level": level,
        **{verdict.name.lower(): f"{sum(one.count(verdict) for one in checked):,}" for verdict in Verdict},
        "malformed rows": f"{sum(len(one.malformed) for one in checked):,}",
    }
    remarks = [covered(checked)]
    remarks += [f"{shown(one.path)}: {left_out(one.malformed)}" for one in checked if one.malformed][:NAMED]
    words = {Status.HOLDS: "holds", Status.VIOLATED: "violated"}.get(status, "not all checked")
    return page.text(facts, words, holds=status is Status.HOLDS, remarks=remarks)


def history_files(paths: Sequence[Path], version: int | None = None) -> tuple[list[Path], list[Path]]:
    """Every file that was named, and the history files of every folder; and the other tables in these folders.

    Raises Unusable when there is none of the first; and with a `version`, unless there is one table that may have some.
    """
    if not paths:
        raise Unusable("no histories to check: name one or more Parquet or JSON lines files, or folders of them")
    found: list[Path] = []
    other: list[Path] = []
    for path in paths:
        if not path.exists():
            raise Unusable(f"{path}: there is no such file or folder; check the path")
        if not path.is_file() and not path.is_dir():
            raise Unusable(f"{path}: neither a file nor a folder; write the histories to a file and name that")
        if (table := table_above(path)) is not None:
            raise Unusable(f"{path}: it is in the folder of the table {table}, whose log says what is in it; name that")
        if path.is_file() or is_recording(path) or is_table(path):
            found.append(path)
            continue
        inside = files_in(path)
        tables = [file for file in inside if file.suffix == PARQUET and files.is_other_table(file)]
        inside = [file for file in inside if file not in tables]
        if not inside and tables:
            raise Unusable(
                f"{path}: there are no histories in the folder, only {passed_over(tables)}; name one with some"
            )
        if not inside:
            raise Unusable(
                f"{path}: there is no {' or '.join(SUFFIXES)} file in the folder, nor {JEPSEN}; name one with histories"
            )
        found += inside
        other += tables
    if version is not None and sum(map(is_table, found)) != 1:
        raise Unusable(f"--table-version {version}: name one table of Delta or Iceberg")
    return found, other


def tell_passed_over(screen: Screen, tables: Sequence[Path]) -> None:
    """Say which tables of the folders have no histories, if any have none."""
    if tables:
        screen.say(f"passed over {passed_over(tables)}\n")


def passed_over(tables: Sequence[Path]) -> str:
    """Tables of something else in words, by their folders."""
    folders = sorted({shown(table.parent) for table in tables})
    named = ", ".join(folders[:NAMED]) + (f" and {len(folders) - NAMED} more" if len(folders) > NAMED else "")
    return f"{say(len(tables), 'table')} without histories, in {named}"


def files_in(folder: Path) -> list[Path]:
    """The files of histories in a folder, and the recordings of taps and tables, whose parts are no histories."""
    recordings, tables = [about.parent for about in folder.rglob(ABOUT)], tables_below(folder)
    parts = {part for recording in recordings for part in recording.iterdir()}
    parts |= {part for table in tables for part in table.rglob("*")}
    others = (each for each in folder.rglob("*") if is_data(each, folder) and each not in parts)
    return sorted([*recordings, *tables, *others])


def is_data(path: Path, folder: Path) -> bool:
    """A file of histories in `folder`, by its name; hidden ones are not, as for Spark."""
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return not hidden and (path.suffix in SUFFIXES or path.name == JEPSEN) and path.is_file()


def read_sound(
    path: Path, history: int | None = None, version: int | None = None
) -> tuple[Operations, Sequence[Malformed], Sequence[str]]:
    """The histories of a file that can be checked, what keeps the others from it, and what else there is to say.

    With `history` that one alone; a table at `version`. Raises HistoryError, and Unusable for a table.
    """
    malformed: Sequence[Malformed]
    if is_table(path):
        operations, malformed, remarks = read_table(path, version)
    elif history is None:
        return read_file(path)
    else:
        row_groups = files.row_groups_of(path, history) if path.is_file() and path.suffix == PARQUET else None
        operations, malformed, remarks = read_file(path, row_groups)
    if history is None:
        return operations, malformed, remarks
    own = operations.take(np.flatnonzero(operations.history == history))
    return own, [row for row in malformed if row.history in (None, history)], remarks


def read_file(
    path: Path, row_groups: Sequence[int] | None = None
) -> tuple[Operations, Sequence[Malformed], Sequence[str]]:
    """All histories of a file, or those of some row groups."""
    if path.is_dir():
        operations, remarks = read_recording(path)
        return *split(operations, str(path)), remarks
    if path.suffix in JSON_LINES:
        return *jsonl.read_sound(path), ()
    if path.suffix == EDN:
        return *split(edn.read(path), str(path)), ()
    try:
        return *files.read_sound(path, row_groups), ()
    except HistoryError as error:
        if path.suffix == PARQUET:
            raise
        raise Unusable(f"{error}, or call it {' or '.join(JSON_LINES)} if it has JSON lines") from error


def status_of(checked: Sequence[CheckedFile]) -> Status:
    """What can't be checked outweighs what is violated: a run that left rows aside has not said its last word."""
    if any(one.malformed or one.is_empty for one in checked):
        return Status.COULD_NOT_RUN
    if any(one.count(Verdict.VIOLATED) for one in checked):
        return Status.VIOLATED
    return Status.COULD_NOT_RUN if any(one.count(Verdict.UNKNOWN) for one in checked) else Status.HOLDS


def show(screen: Screen, checked: Sequence[CheckedFile], limit: int) -> None:
    rows = [
        (
            shown(one.path),
            len(one.verdicts.histories),
            int(one.verdicts.operations.sum()),
            *(one.count(verdict) for verdict in Verdict),
            len(one.malformed),
        )
        for one in checked
    ]
    verdicts = (verdict.name.lower() for verdict in Verdict)
    screen.table(("file", "histories", "operations", *verdicts, "malformed rows"), rows)
    anomalies = by_file(checked, lambda one: one.verdicts.anomalies)
    malformed = [told(row, one.path) for one in checked for row in one.malformed]
    for (one_of_them, many), lines in ((("anomaly", "anomalies"), anomalies), (("malformed row", ""), malformed)):
        if lines:
            screen.say(f"\n{say(len(lines), one_of_them, many)}:")
            for line in lines[:limit]:
                screen.say(f"  {line}")
            if len(lines) > limit:
                screen.say(f"  … and {len(lines) - limit:,} more (--limit, --out DIR or --json for all)")
    cycles = by_file(checked, lambda one: one.told.cycles)
    if cycles:
        screen.say("\ntold, and no violation at level kafka (docs/history.md, What transactions promise):")
        for line in cycles[:limit]:
            screen.say(f"  {line}")
    positions = sum((one.told.positions for one in checked), Positions())
    if positions != Positions():
        screen.say(f"\n{positions}")
    if any(len(one.verdicts.histories) for one in checked):
        histories = sum(len(one.verdicts.histories) for one in checked)
        parts = counted([one.verdicts.coverage.parts for one in checked])
        of = (f"{name} of {count:,}" for name, count in parts.items() if count)
        screen.say(f"\njudged: {', '.join(of)} of {say(histories, 'history', 'histories')}")
        screen.say(f"\n{covered(checked)}")


def by_file(checked: Sequence[CheckedFile], found: Callable[[CheckedFile], Iterable[object]]) -> list[str]:
    """All that was found, in words; and in which file, if there are several: each has histories of its own."""
    alone = len(checked) == 1
    return [str(what) if alone else f"{shown(one.path)}: {what}" for one in checked for what in found(one)]


def covered(checked: Sequence[CheckedFile]) -> str:
    """What the verdicts cover, with the first partitions of which they do not say everything."""
    gaps = islice(
        (
            gap if len(checked) == 1 else attrs.evolve(gap, whose=f"history {gap.history} of {shown(one.path)}")
            for one in checked
            for gap in one.verdicts.coverage.gaps
        ),
        NAMED,
    )
    return sum((one.verdicts.coverage.totals for one in checked), Totals()).words(gaps)


def left_out(malformed: Sequence[Malformed]) -> str:
    """What malformed rows mean for the verdicts."""
    whole = say(len(malformed), "malformed row")
    if all(row.history is not None for row in malformed):
        return f"{whole}, whose histories are not checked"
    return f"{whole}, some of which name no history: operations may be missing from any history of the file"


def told(row: Malformed, path: Path) -> str:
    """A malformed row or line in words, with its file."""
    return str(row) if isinstance(row, MalformedRow) else f"{shown(path)}, {row}"


def write_tables(screen: Screen, checked: Sequence[CheckedFile], out: Path) -> None:
    """Both tables, each whole or not at all, with the file in which a history is as the first column."""
    unfinished: dict[Path, Path] = {}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, tables in (
            ("verdicts", [(one.path, one.verdicts.table()) for one in checked]),
            ("anomalies", [(one.path, one.verdicts.anomaly_table()) for one in checked]),
        ):
            sourced = [
                table.add_column(0, "file", pa.array([shown(path)] * len(table), pa.string())) for path, table in tables
            ]
            place = out / f"{name}{PARQUET}"
            # Two commands may write into one folder at once: each has files of its own until they are complete.
            part = unfinished[place] = out / f".{place.name}.{os.getpid()}.part"
            pq.write_table(pa.concat_tables(sourced), part, write_page_checksum=True)
        for place, part in unfinished.items():
            part.replace(place)
    except OSError as error:
        raise Unusable(f"--out {out} cannot be written ({os_words(error)}): name another folder") from error
    finally:
        for part in unfinished.values():
            with suppress(OSError):
                part.unlink(missing_ok=True)
    screen.say(f"verdicts.parquet and anomalies.parquet written to {out}")


def os_words(error: OSError) -> str:
    """What the system says, without the path; Arrow's errors carry no code of their own."""
    return error.strerror or str(error)


def document(checked: Sequence[CheckedFile]) -> dict[str, Any]:
    found = Counter(anomaly.name.value for one in checked for anomaly in one.verdicts.anomalies)
    return {
        "histories": sum(len(one.verdicts.histories) for one in checked),
        "operations": sum(int(one.verdicts.operations.sum()) for one in checked),
        "checked": {
            kind: sum(getattr(one.verdicts.coverage.kinds, kind) for one in checked)
            for kind in ("logs", "transactions", "groups")
        },
        "verdicts": {verdict.name.lower(): sum(one.count(verdict) for one in checked) for verdict in Verdict},
        "judged": counted([one.verdicts.coverage.parts for one in checked]),
        "anomalies_by_name": dict(sorted(found.items())),
        "files": [
            {
                "file": shown(one.path),
                "histories": len(one.verdicts.histories),
                "anomalies": one.verdicts.anomaly_table().to_pylist(),
                "told": {
                    "cycles": [attrs.asdict(cycle) | {"name": cycle.name.value} for cycle in one.told.cycles],
                    "positions_after_abort": attrs.asdict(one.told.positions),
                },
                "reason": "no operations" if one.is_empty else None,
                "remarks": list(one.remarks),
                "malformed": [attrs.asdict(row) for row in one.malformed],
                "coverage": {
                    **attrs.asdict(one.verdicts.coverage.totals),
                    "partitions": one.verdicts.coverage.partitions,
                    "first": [attrs.asdict(gap) for gap in one.verdicts.coverage.gaps],
                },
            }
            for one in checked
        ],
    }
