"""A file with one bit flipped, and what becomes of a process that reads it: each crash, hang and large memory is seen.

A child process tries one flip after the other and says what came of each; where it ends, another one goes on behind
that flip.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

Read = Callable[[Path], object]
"""Reads the file, and returns what it says."""
Bit = tuple[int, int]
"""A byte of the file, and one of its bits."""
Outcome = tuple[str, str]
"""TOLD, SAME or what else came of a flip; and the message."""

TOLD, SAME = "told", "same"
LONGEST = 120
"""Seconds after which a flip counts as a hang. A busy machine takes some hundredths for one."""
MOST = 256 << 10
"""KiB that a flip may add to the largest size of the process."""


def outcomes(
    path: Path, bits: Iterable[Bit], read: Callable[[], object], errors: tuple[type[Exception], ...]
) -> dict[Bit, Outcome]:
    """What came of each flip of the file at `path`, which is whole before and after.

    `read` returns what has to stay the same, or raises one of `errors`, whose message has to have the file's name.
    """
    whole, left, found = path.read_bytes(), list(bits), dict[Bit, Outcome]()
    expected = read()
    try:
        while left:
            told, status = _in_a_child(lambda: _try_all(path, whole, left, read, errors, expected))
            for line in told:
                kind, message = json.loads(line)
                found[left.pop(0)] = kind, message
            if status:
                found[left.pop(0)] = "crash", f"the process ended with {status}"
    finally:
        path.write_bytes(whole)
    return found


def bits_of(places: Iterable[int], step: int = 1) -> list[Bit]:
    """Every `step`-th bit of these bytes."""
    return [(place, bit) for place in places for bit in range(8)][::step]


def footer_of(path: Path) -> range:
    """The bytes of the footer and of what is behind it."""
    content = path.read_bytes()
    return range(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), len(content))


def bad(found: dict[Bit, Outcome]) -> dict[Bit, Outcome]:
    """The flips after which something else came than a message that names the file, or the same verdict."""
    return {bit: outcome for bit, outcome in found.items() if outcome[0] not in (TOLD, SAME)}


def _in_a_child(work: Callable[[], Iterable[Outcome]]) -> tuple[Sequence[str], int]:
    """The lines that a child process wrote, and its exit status; what it was at when it ended has no line."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with os.fdopen(writer, "w", buffering=1) as said:
                for outcome in work():
                    said.write(json.dumps(outcome) + "\n")
            os._exit(0)
        finally:
            os._exit(77)
    os.close(writer)
    with os.fdopen(reader) as told:
        lines = told.read().splitlines()
    return lines, os.waitpid(child, 0)[1]


def _try_all(
    path: Path,
    whole: bytes,
    bits: Sequence[Bit],
    read: Callable[[], object],
    errors: tuple[type[Exception], ...],
    expected: object,
) -> Iterable[Outcome]:
    for place, bit in bits:
        signal.alarm(LONGEST)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        try:
            found = read()
            outcome = (SAME, "") if found == expected else ("another verdict", str(found))
        except errors as error:
            outcome = (TOLD if str(path) in str(error) else "no name", str(error))
        except Exception as error:
            outcome = ("another error", repr(error))
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > before + MOST:
            outcome = ("memory", outcome[1])
        yield outcome
    signal.alarm(0)
