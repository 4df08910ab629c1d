"""Reading a recording, at its end or while it grows: what each snapshot has made whole, and nothing after the last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs

from tidegauge.linearizability.arrow import HistoryError
from tidegauge.linearizability.history import Outcome
from tidegauge.linearizability.json_objects import each_name_once, parse_line
from tidegauge.linearizability.tapped.attempts import outcome_of
from tidegauge.linearizability.tapped.lines import Committed, Ended, Line, Operation, Remark, Sent, parse

ABOUT: Final = "tap.json"
FORMAT: Final = 1
READ_SIZE: Final = 8 << 20


def is_recording(folder: Path) -> bool:
    """Whether a folder is a recording of a tap."""
    return (folder / ABOUT).is_file()


def is_open(line: Line) -> bool:
    """Whether a line says what counts beyond its time: an attempt that was not acknowledged, or a remark."""
    if isinstance(line, Sent):
        return outcome_of(line) is Outcome.INFO
    return isinstance(line, Remark) or (isinstance(line, Ended | Committed) and line.error is None)


@attrs.define(eq=False)
class Reader:
    """A recording as far as it has been read. `read_on` reads what has come since."""

    folder: Path
    alone: bool
    """Whether every record was sent through the tap, as who started it said."""
    lines: dict[Operation, Line] = attrs.field(factory=dict)
    """By their operation; what has ended since it was first written replaces that."""
    until: int = 0
    """The time of the last snapshot, in nanoseconds since the recording began."""
    incomplete: bool = False
    """Whether there are lines behind the last snapshot, which are left out."""
    lacks_parts: bool = False
    """Whether parts are gone that may not have been read to their end: the tap keeps so many only."""
    _part: int = 0
    _position: int = 0
    _held: list[Line] = attrs.field(factory=list)

    @classmethod
    def of(cls, folder: Path) -> Reader:
        """A reader that has read nothing yet. Raises HistoryError where no recording is."""
        try:
            about: Any = json.loads((folder / ABOUT).read_text("utf-8"), object_pairs_hook=each_name_once)
        except (OSError, ValueError) as error:
            raise HistoryError(f"{folder / ABOUT}: not what a tap writes ({error}); name its folder") from error
        if not isinstance(about, dict) or about.get("tap") != FORMAT:
            raise HistoryError(f"{folder / ABOUT}: not a recording of format {FORMAT}; use the tidegauge that wrote it")
        return cls(folder, bool(about.get("alone")))

    def read_on(self) -> bool:
        """Read what has been written since; whether there was a snapshot. Raises HistoryError."""
        before = self.until
        while True:
            following = self._next_number()  # asked before the part is read, which is complete if there is one
            if self._part:
                self._read(self._path(self._part))
            if following is None:
                return self.until != before
            if following != self._part + 1:
                self._lack_parts()
            self._part, self._position = following, 0

    def forget(self, most: int) -> None:
        """Keep about so many lines, the last ones.

        Of a recording without its beginning it holds what holds of the whole, but for records that were sent before,
        which are then taken for those of others. What has an unknown outcome stays: it may be tried again.
        """
        if len(self.lines) > most:
            self.alone = False
            oldest = list(self.lines)[: len(self.lines) - most]
            for operation in oldest:
                if not is_open(self.lines[operation]):
                    del self.lines[operation]

    def _lack_parts(self) -> None:
        """Go on without parts: records that were sent in them are taken for those of others."""
        self.lacks_parts = True
        self.alone = False

    def _parts(self) -> list[int]:
        try:
            return sorted(int(path.stem.removeprefix("part-")) for path in self.folder.glob("part-*.jsonl"))
        except ValueError as error:
            raise HistoryError(f"{self.folder}: a part has no number ({error}); name a folder of a tap") from None

    def _next_number(self) -> int | None:
        """The part after the one that is read, if it has begun."""
        return next((number for number in self._parts() if number > self._part), None)

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06}.jsonl"

    def _read(self, part: Path) -> None:
        """Read the snapshots of a part that are whole by now."""
        self._held = []
        self.incomplete = False
        try:
            with open(part, "rb") as file:
                self._read_lines(part, file)
        except FileNotFoundError:
            self._lack_parts()
        self.incomplete |= bool(self._held)
        self._held = []

    def _read_lines(self, part: Path, file: BinaryIO) -> None:
        file.seek(self._position)
        position = self._position
        for line in file:
            if not line.endswith(b"\n"):
                self.incomplete = True
                break
            position += len(line)
            if self._take(part, line):
                self._position = position

    def _take(self, part: Path, line: bytes) -> bool:
        """Take a line; whether it ends a snapshot."""
        try:
            fields = parse_line(line)
            if fields["kind"] != "snapshot":
                self._held.append(parse(fields))
                return False
            self.until = int(fields["at"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            text = line[:80].decode(errors="backslashreplace")
            raise HistoryError(f"{part}: a line is not what a tap writes ({error}): {text}") from error
        for one in self._held:
            self.lines[one.op] = one
        self._held = []
        return True
