"""Log directories beside the machine of moves: after each step they have the names, the log and the high watermark."""

from __future__ import annotations

from collections import Counter
from errno import EIO
from random import Random
from uuid import UUID

import attrs
import pytest

from tidegauge.impl.ports.failing_disk import EVERYTHING, FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directories import LogDirectories
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.storage.moving_logs import move_of
from tidegauge.model_tests.amounts import amount
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.membership import moving
from tidegauge.spec.membership.moves import Moves
from tidegauge.spec.membership.moving import As, Disks, NamedLog, Stage

KEY = ("tide", 0)
TOPIC_ID = UUID(int=7)
PATHS = ("data/one", "data/two")
MACHINE = Moves(records=6, max_moves=6, failures=4, lives=1)
WALKS, LENGTH = 150, 60
SUFFIXES = {"future": As.FUTURE, "left": As.LEFT}


@attrs.define
class Walk:
    """The directories of one broker, and the state that they should be in."""

    random: Random
    state: Disks
    disk: FailingDisk
    simulated: SimulatedDisk
    directories: LogDirectories
    done: Counter[str] = attrs.field(factory=Counter)

    @classmethod
    def begun(cls, seed: int) -> Walk:
        simulated = SimulatedDisk(Random(seed))
        disk = FailingDisk(simulated)
        (state,) = MACHINE.initial()
        directories = opened(disk)
        directories.open_log(*KEY, LogConfig(), 0, TOPIC_ID, into=PATHS[0])
        return cls(Random(seed), state, disk, simulated, directories)

    def at(self, directory: int) -> LogDirectory:
        found = self.directories.at(PATHS[directory])
        assert found is not None, f"{PATHS[directory]} is online"
        return found

    @property
    def own(self) -> Log:
        where = self.directories.where(*KEY)
        assert where is not None
        return where.logs[KEY]

    def go(self) -> None:
        """One step of both that may come next."""
        actions = [action for action in MACHINE.actions(self.state) if not isinstance(action, moving.Fill)]
        steps = [one for one in actions if type(one) in MOVING] if self.random.random() < ON_ITS_WAY else []
        self.perform(self.random.choice(steps or actions))

    def perform(self, action: Action) -> None:
        """One step of both."""
        if isinstance(action, moving.Stop):
            action = self.crash()
        else:
            self.do(action)
        self.state = MACHINE.step(self.state, action)
        if isinstance(action, moving.Free) and not MACHINE.guard(
            self.state, other := moving.Free(1 - action.directory)
        ):
            self.state = MACHINE.step(self.state, other)  # all that was left is removed at once
        self.done[type(action).__name__] += 1
        self.compare()

    def crash(self) -> moving.Stop:
        """The power goes; which names are left is the disk's to say, and has to be possible."""
        self.directories.abandon()
        self.disk.heal()
        self.simulated.crash()
        self.simulated.power_on()
        found = tuple(self.names(d) for d in moving.DIRECTORIES)
        stops = [each for each in MACHINE.actions(self.state) if isinstance(each, moving.Stop)]
        fitting = [each for each in stops if tuple(map(kinds, MACHINE.step(self.state, each).names)) == found]
        assert fitting, f"{found} after {self.state}"
        return fitting[0]

    def names(self, directory: int) -> set[tuple[As, int]]:
        """What the logs in a directory are called, and the number of their move."""
        found = set()
        for name in self.simulated.list_directory(PATHS[directory]):
            if name == f"{KEY[0]}-{KEY[1]}":
                found.add((As.OWN, 0))
            elif (kind := SUFFIXES.get(name.rpartition("-")[2])) is not None:
                found.add((kind, move_of(name, f"-{kind.value}") or 0))
        return found

    def do(self, action: Action) -> None:
        state, key, disk = self.state, KEY, self.disk
        source, target = state.source, 1 - state.source
        match action:
            case moving.Append():
                self.own.append_as_leader(build_batch([Record(0, 0, None, b"x")]), 0, 0)
                self.own.flush()
            case moving.WriteDown():
                writes = self.directories.begin_checkpoint_high_watermarks({key: state.acknowledged})
                self.directories.finish_checkpoint(write() for write in writes)
            case moving.Begin():
                target = 1 - (state.hosted or 0)
                self.at(target).moving.open_future(self.own, key, TOPIC_ID, UUID(int=state.moves + 1), 0)
            case moving.Copy():
                future = self.at(target).moving.futures[key]
                while future.log_end_offset < self.own.log_end_offset:
                    future.append_as_follower(bytes(self.own.read(future.log_end_offset, 1 << 20)))
            case moving.Prepare():
                self.at(target).prepare_future(key, {key: state.acknowledged})
            case moving.GiveUp():
                self.at(target).drop_future(key)
            case moving.Leave():
                self.at(source).moving.leave(self.own, key, TOPIC_ID, UUID(int=state.moves))
            case moving.SyncLeft():
                self.at(source).settle_left(key)
                self.directories.moved(*key, self.at(target))
            case moving.Adopt():
                disk.fail(PATHS[target], operations=[Operation.SYNC_DIRECTORY], error=EIO, times=1)
                with pytest.raises(OSError, match=PATHS[target]):
                    self.at(target).moving.adopt(key)
            case moving.SyncAdopted():
                self.at(target).open_log(*key, LogConfig(), 0, was_closed=True)
            case moving.Free():
                self.directories.free_left(key, TOPIC_ID, 0, 0)
            case moving.Fail(directory):
                self.fail(directory)
            case moving.Start(without):
                self.start(without)

    def fail(self, directory: int) -> None:
        """A move that has not left its source ends."""
        state, target = self.state, 1 - self.state.source
        if state.stage in (Stage.COPYING, Stage.PREPARED) and directory == state.source:
            self.at(target).drop_future(KEY)
        if state.stage is Stage.LEAVING and directory == state.source:
            self.at(target).moving.keep_for_a_start(KEY)
        if state.stage is Stage.LEAVING and directory == target:  # which is found when the log is to be adopted
            self.at(state.source).settle_left(KEY)
            self.directories.moved(*KEY, self.at(target))
        self.directories.fail(self.at(directory), OSError(EIO, "no"))

    def start(self, without: int | None) -> None:
        if without is not None:
            self.disk.fail(PATHS[without], operations=EVERYTHING)
        self.directories = opened(self.disk)
        self.disk.heal()
        where = self.directories.where(*KEY)
        if where is not None:
            self.directories.open_log(*KEY, LogConfig(), 0, TOPIC_ID)
            assert self.directories.high_watermarks().get(KEY, 0) >= self.state.noted

    def compare(self) -> None:
        state = self.state
        for directory in moving.DIRECTORIES:
            assert self.names(directory) == kinds(state.names[directory]), f"{PATHS[directory]} in {state}"
        if not state.running or state.stage not in (Stage.NONE, Stage.COPYING):
            return
        where = self.directories.where(*KEY)
        assert (None if where is None else PATHS.index(where.path)) == state.hosted
        assert self.directories.doubles == {}
        if state.hosted is not None:
            assert self.own.log_end_offset == state.acknowledged
        elif state.offline and not state.is_lost:
            may_make = not self.directories.may_have_moved(*KEY, TOPIC_ID) and state.known not in state.offline
            assert may_make == MACHINE.may_make(state)


MOVING = (moving.Begin, moving.Copy, moving.Prepare, moving.Leave, moving.SyncLeft, moving.Adopt, moving.SyncAdopted)
ON_ITS_WAY = 0.5
"""How often a step is one of a move."""


def kinds(names: tuple[NamedLog, ...]) -> set[tuple[As, int]]:
    return {(log.name, log.move) for log in names}


def opened(disk: FailingDisk) -> LogDirectories:
    ids = iter([UUID(int=1), UUID(int=2)])
    return LogDirectories.open(disk, PATHS, cluster_id="c", node_id=1, new_id=lambda: next(ids))


def walked(seeds: range) -> Counter[str]:
    """Walks with these seeds; how often each action was one of their steps."""
    done: Counter[str] = Counter()
    for seed in seeds:
        walk = Walk.begun(seed)
        try:
            for _ in range(LENGTH):
                walk.go()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        done += walk.done
    return done


def test_directories_go_where_the_machine_goes() -> None:
    done = walked(range(amount(60, deep=WALKS)))
    never = {"TakeAway", "Give", "Make", "Fill", "MakeRoom"}
    assert {kind.__name__ for kind in MACHINE.action_types} - never == done.keys()


def test_a_future_log_that_waits_for_its_source_is_not_missing() -> None:
    walk = Walk.begun(0)
    until_left = (moving.Append, moving.Begin, moving.Copy, moving.Prepare, moving.Leave, moving.SyncLeft, moving.Stop)
    for action in (*(kind() for kind in until_left), moving.Start(without=0), moving.Stop(), moving.Start()):
        walk.perform(action)
        assert walk.directories.missing == []
    assert (walk.state.hosted, walk.own.log_end_offset, walk.directories.high_watermarks()) == (1, 1, {KEY: 1})


@pytest.mark.deep
def test_they_go_there_on_many_walks() -> None:
    walked(range(WALKS, 40 * WALKS))
