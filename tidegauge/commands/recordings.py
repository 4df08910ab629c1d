"""Recordings of `tidegauge tap` for `tidegauge check`: read at their end, or followed while they grow."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidegauge.exits import Status, Unusable
from tidegauge.linearizability.check import Verdicts
from tidegauge.linearizability.check import check as check_operations
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import split
from tidegauge.linearizability.plurals import say
from tidegauge.linearizability.tapped.reading import Reader, is_recording
from tidegauge.linearizability.tapped.resolving import Resolved, resolve
from tidegauge.screen import Screen

BETWEEN_CHECKS: Final = 1.0
"""Seconds at least, and as long as the check before has taken."""
FEWEST: Final = 100
WINDOW: Final = 100_000
"""Operations that are looked at together unless the command says otherwise."""


def read_recording(folder: Path) -> tuple[Operations, Sequence[str]]:
    """The histories of a recording, and what else there is to say of it. Raises HistoryError."""
    reader = Reader.of(folder)
    reader.read_on()
    resolved = resolve(reader)
    return resolved.operations, remarks_of(reader, resolved)


def remarks_of(reader: Reader, resolved: Resolved) -> list[str]:
    """What is not in the histories, in words."""
    remarks = []
    if resolved.others and not reader.alone:
        many = say(resolved.others, "record was", "records were")
        remarks.append(f"{many} read that nobody sent through the tap: taken to be sent by others (tap --alone)")
    if reader.lacks_parts:
        remarks.append("parts are gone (tap --keep): records that were sent in them are taken to be sent by others")
    if reader.incomplete:
        remarks.append("it ends in the middle of a snapshot, as after a crash: what is behind the last one is left out")
    return [*remarks, *(f"passed unread: {text}" for text in resolved.remarks)]


def follow_recording(
    screen: Screen, folders: Sequence[Path], level: Level, window: int | None, *, wants_more: bool
) -> Status:
    """Check a recording while it grows, until Ctrl-C; each anomaly of a partition is told once."""
    window = WINDOW if window is None else window
    if len(folders) != 1 or not is_recording(folders[0]):
        raise Unusable("--follow: name one folder, which tidegauge tap writes")
    if wants_more or screen.json:
        raise Unusable("--follow prints what it finds: leave --out, --html, --history and --json out")
    if window < FEWEST:
        raise Unusable(f"--window {window}: give {FEWEST} or more")
    screen.header({"histories": folders[0], "level": level.value, "window": window})
    reader = Reader.of(folders[0])
    told: set[tuple[object, ...]] = set()
    remarked: set[str] = set()
    operations, bad = 0, False
    try:
        while True:
            began = time.monotonic()
            if reader.read_on():
                reader.forget(window)
                resolved = resolve(reader)
                sound, malformed = split(resolved.operations, str(reader.folder))
                verdicts = check_operations(sound, level)
                operations = len(sound)
                tell_new(screen, verdicts, told, reader.until)
                bad |= bool(malformed)
                reasons = [f"malformed, so its history is not checked: {row.reason}" for row in malformed]
                for remark in (*(f"passed unread: {text}" for text in resolved.remarks), *reasons):
                    if remark not in remarked:
                        remarked.add(remark)
                        screen.say(remark)
                        screen.out.file.flush()
            time.sleep(max(BETWEEN_CHECKS, time.monotonic() - began))
    except KeyboardInterrupt:
        looked_at = say(operations, "operation was", "operations were")
        screen.say(f"\n{looked_at} looked at in the end, {say(len(told), 'anomaly', 'anomalies')} told")
        if bad:
            return Status.COULD_NOT_RUN
        return Status.VIOLATED if told else Status.HOLDS


def tell_new(screen: Screen, verdicts: Verdicts, told: set[tuple[object, ...]], until: int) -> None:
    """Print the anomalies that are not told yet."""
    for anomaly in verdicts.anomalies:
        key = anomaly.name, anomaly.topic, anomaly.partition
        if anomaly.name.violates and key not in told:
            told.add(key)
            screen.say(f"{until / 1e9:,.1f} s: {anomaly}")
            screen.out.file.flush()
