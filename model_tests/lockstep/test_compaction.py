"""The cleaner in lockstep with its machine: random walks, and the same records after every step."""

from __future__ import annotations

from random import Random

import pytest

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.payload import Record, build_batch, decode_records
from tidegauge.impl.storage.cleaner import Round
from tidegauge.impl.storage.cleaner_batches import delete_horizon
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_map import SLOT_SIZE, OffsetMap
from tidegauge.model_tests.amounts import amount
from tidegauge.spec.compaction.machine import (
    DELETED,
    NEVER,
    Append,
    BeginRound,
    CleanGroup,
    Compaction,
    EndRound,
    RemoveOld,
    Roll,
    State,
)
from tidegauge.spec.kernel.machine import Action

DIRECTORY = "logs/tide-0"
MACHINE = Compaction(max_records=16, keys=3, retention=2, max_time=8, max_crashes=0, reads=False)
CONFIG = LogConfig(delete_retention_ms=MACHINE.retention)
STEPS = 45


class Pair:
    """The machine's state, and a log on a disk that is to be the same."""

    def __init__(self, seed: int) -> None:
        self.state = State()
        self.disk = SimulatedDisk(Random(seed))
        self.log = Log.open(self.disk, DIRECTORY, CONFIG, 0)
        self.clean = 0

    def append(self, action: Append) -> None:
        self.state = MACHINE.step(self.state, action)
        made = self.state.history[-1]
        value = None if made.value == DELETED else b"%d" % made.value
        record = Record(0, 1_000, b"%d" % made.key, value)
        self.log.append_as_leader(build_batch([record]), 0, 0)

    def roll(self) -> None:
        self.state = MACHINE.step(self.state, Roll())
        self.log.roll(0)

    def clean_with(self, keys: int) -> None:
        """A whole round: the machine takes it step by step, as one group."""
        state = MACHINE.step(self.state, BeginRound(keys))
        assert state.round is not None
        count = sum(segment.base < state.round.end for segment in state.segments[:-1])
        state = MACHINE.step(state, CleanGroup(count))
        while state.round is not None and state.round.swap is not None:
            state = MACHINE.step(state, RemoveOld())
        self.state = MACHINE.step(state, EndRound())
        offsets = OffsetMap((keys + 1) * SLOT_SIZE, load_factor=1.0)
        end = self.log.closed_segments[-1].next_offset
        slices = Round(self.log, self.disk, offsets, self.clean, end, state.now).run()
        while True:
            try:
                next(slices)
            except StopIteration as done:
                self.clean = done.value.end_offset
                return

    def restart(self) -> None:
        self.log.flush()
        self.disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.SEEDED)
        self.disk.power_on()
        self.log = Log.open(self.disk, DIRECTORY, CONFIG, 0, recovery_point=self.state.end)

    def expected(self) -> list[tuple[int, int, int, int]]:
        return [(record.offset, record.key, record.value, record.horizon) for record in self.state.records]

    def found(self) -> list[tuple[int, int, int, int]]:
        found = []
        offset = 0
        while offset < self.log.log_end_offset:
            data = self.log.read(offset, 1 << 20)
            for position, header in headers(data):
                horizon = delete_horizon(header)
                for record in decode_records(data, position):
                    value = DELETED if record.value is None else int(record.value)
                    time = NEVER if horizon is None else horizon
                    found.append((record.offset, int(record.key or b""), value, time))
                offset = header.next_offset
        return found


def act(pair: Pair, rng: Random) -> Action | None:
    """One action that may happen, on both; None when none may."""
    possible = list(MACHINE.actions(pair.state))
    if not possible:
        return None
    action = rng.choice(possible)
    match action:
        case Append():
            pair.append(action)
        case Roll():
            pair.roll()
        case BeginRound(keys):
            pair.clean_with(keys)
        case _:
            pair.state = MACHINE.step(pair.state, action)
    return action


@pytest.mark.parametrize("seed", range(amount(15, deep=60)))
def test_a_random_walk(seed: int) -> None:
    rng, pair = Random(seed), Pair(seed)
    walked: list[str] = []
    for _ in range(STEPS):
        if (action := act(pair, rng)) is None:
            break
        walked.append(str(action))
        if rng.random() < 0.1:
            pair.restart()
            walked.append("restart")
        assert pair.found() == pair.expected(), f"after {', '.join(walked)}"
        assert pair.log.log_end_offset == pair.state.end


def test_the_walks_meet_what_matters() -> None:
    rounds = dropped = 0
    for seed in range(20):
        rng, pair = Random(seed), Pair(seed)
        for _ in range(STEPS):
            before = {record.offset for record in pair.state.records if record.value == DELETED}
            if isinstance(act(pair, rng), BeginRound):
                rounds += 1
                dropped += bool(before - {record.offset for record in pair.state.records})
    assert rounds > 50
    assert dropped > 5
