"""A search whose states are in files goes on from its checkpoint, wherever it was killed, as if nothing had been."""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tidegauge.model_tests.amounts import ends
from tidegauge.model_tests.harness.storage import folder as storage
from tidegauge.model_tests.harness.storage.folder import MANIFEST, Folder
from tidegauge.model_tests.harness.storage.identity import identity_of
from tidegauge.model_tests.harness.storage.unpickling import loaded
from tidegauge.model_tests.spec.kernel.toys import DieHard
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.fast.search import FastSearch
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.progress import Cut, Limits, Stop
from tidegauge.spec.kernel.storage import CheckpointError, Storage, StorageError
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.registry import REGISTRY

KIP320: Machine[Any] = REGISTRY.machine("kip320")
HOW: Mapping[str, Any] = {"stop": Stop.NEVER, "converges": True}
DEEP_ENOUGH = Limits(depth=11)
"""11,000 states of KIP-320: a dozen checkpoints, and a table for 3,072 of them spills."""
SMALL = 1


@pytest.fixture(scope="module")
def whole() -> Exploration[Any]:
    """What a search finds that nothing interrupts."""
    return explored(None)


def explored(kept: Storage | None, machine: Machine[Any] = KIP320, **how: Any) -> Exploration[Any]:
    return explore(machine, engine=Engine.FAST, storage=kept, **{**HOW, "limits": DEEP_ENOUGH, **how})


def began(path: Path, machine: Machine[Any] = KIP320, **how: Any) -> Any:
    return storage.begun(path, identity_of(machine, **how), SMALL, every_s=0)


def went_on(path: Path, machine: Machine[Any] = KIP320, memory: int | None = SMALL, **how: Any) -> Any:
    return storage.resumed(path, identity_of(machine, **how), memory, every_s=0)


def killed_at(at: int) -> Callable[..., None]:
    """Kills the process when it is called for that time."""
    called = count(1).__next__

    def kill(*_: object, **__: object) -> None:
        if called() == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def in_a_child(run: Callable[[], object]) -> int:
    """Run in a fork of this process; the signal that ended it, 0 for none."""
    child = os.fork()
    if not child:
        try:
            run()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


MOMENTS = ("fsync", "fallocate", "rename", "pickle", "remove", "expand")


def kill_at(moment: str, at: int) -> None:
    """Have this process die at the so-and-so-many-th moment of its kind."""
    kill = killed_at(at)

    def first(owner: Any, name: str) -> None:
        then = getattr(owner, name)

        def both(*given: Any, **named: Any) -> Any:
            kill()
            return then(*given, **named)

        setattr(owner, name, both)

    match moment:
        case "fsync":
            first(os, "fsync")
        case "fallocate":
            first(os, "posix_fallocate")
        case "rename":
            first(Path, "replace")
        case "pickle":
            first(pickle, "dumps")
        case "remove":
            first(Path, "unlink")
        case _:
            first(FastSearch, "expand_some")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("at", ends([1, 2, 3, 5, 8, 13]))
def test_a_search_that_was_killed_goes_on(moment: str, at: int, tmp_path: Path, whole: Exploration[Any]) -> None:
    def search() -> None:
        kill_at(moment, at)
        with began(tmp_path) as kept:
            explored(kept)

    assert in_a_child(search) == -signal.SIGKILL

    if not (tmp_path / MANIFEST).exists():
        with pytest.raises(CheckpointError, match="has no checkpoint"), went_on(tmp_path):
            raise AssertionError("there is nothing to go on from")
        with began(tmp_path) as kept:
            assert explored(kept) == whole
        return
    with went_on(tmp_path) as kept:
        found = explored(kept)
    assert found == whole
    assert [trace.actions for trace in found.reached.values()] == [trace.actions for trace in whole.reached.values()]


def test_a_search_goes_on_with_another_limit_of_memory_or_none(tmp_path: Path, whole: Exploration[Any]) -> None:
    """What left the table for runs is back in it where there is no limit any more."""
    with began(tmp_path) as kept:
        explored(kept, limits=Limits(depth=10))
    assert list(tmp_path.glob("run-*")), "some states are in runs"
    for memory, depth in ((None, 11), (SMALL, 12), (1 << 30, 13), (None, 14)):
        with went_on(tmp_path, memory=memory) as kept:
            found = explored(kept, limits=Limits(depth=depth))
        assert found == (whole if depth == 11 else explored(None, limits=Limits(depth=depth)))


@pytest.mark.parametrize("name", ["kip320", "elections", "pull-raft"])
def test_a_search_may_be_killed_again_and_again(name: str, tmp_path: Path) -> None:
    machine, saved = REGISTRY.machine(name), 0
    limits = Limits(depth=9)

    def search() -> None:
        kill_at("rename", 3)
        with (went_on if (tmp_path / MANIFEST).exists() else began)(tmp_path, machine) as kept:
            explored(kept, machine, limits=limits)

    while in_a_child(search):
        saved += 1
    assert saved > 2
    with went_on(tmp_path, machine) as kept:
        found = explored(kept, machine, limits=limits)
    assert found == explored(None, machine, limits=limits)
    assert (found.convergence is None) is (not machine.converges)


@pytest.mark.deep
def test_a_search_that_is_killed_at_any_time_goes_on(tmp_path: Path, whole: Exploration[Any]) -> None:
    for turn in range(40):
        path = tmp_path / str(turn)
        child = os.fork()
        if not child:
            with began(path) as kept:
                explored(kept)
            os._exit(0)
        time.sleep(0.05 * turn)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if (path / MANIFEST).exists():
            with went_on(path) as kept:
                assert explored(kept) == whole


@pytest.mark.parametrize("symmetry", [False, True])
@pytest.mark.parametrize("stop", Stop)
def test_violations_and_orbits_are_those_of_one_search(symmetry: bool, stop: Stop, tmp_path: Path) -> None:
    machine = DieHard((3, 5, 5)) if symmetry else DieHard((3, 5, 7))
    how: dict[str, Any] = {"machine": machine, "symmetry": symmetry, "stop": stop, "limits": Limits(depth=9)}
    with began(tmp_path, machine) as kept:
        cut = explored(kept, **{**how, "limits": Limits(depth=6)})
    with went_on(tmp_path, machine) as kept:
        assert explored(kept, **how) == explored(None, **how)
    assert cut.violations or symmetry


def test_a_search_whose_time_is_up_goes_on_from_there(tmp_path: Path) -> None:
    ticks = map(float, count()).__next__
    with storage.begun(tmp_path, identity_of(KIP320), SMALL, every_s=3600) as kept:
        cut = explored(kept, limits=Limits(seconds=8), clock=ticks)
        assert (cut.cut, kept.checkpoints) == (Cut.SECONDS, 1)
    with went_on(tmp_path) as kept:
        found = explored(kept, clock=ticks, limits=Limits(seconds=1000))
    assert (found.seconds or 0) > (cut.seconds or 0) > 0
    assert evolve(found, seconds=None) == explored(None, limits=Limits())


def test_a_limit_that_the_checkpoint_has_passed_is_told(tmp_path: Path) -> None:
    with began(tmp_path) as kept:
        explored(kept)
    with went_on(tmp_path) as kept, pytest.raises(CheckpointError, match="more than the limit of 100"):
        explored(kept, limits=Limits(states=100))
    with (
        went_on(tmp_path) as kept,
        pytest.raises(CheckpointError, match="limit is 3 levels: give a deeper limit, or none"),
    ):
        explored(kept, limits=Limits(depth=3))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The folder of a search that ended."""
    with began(tmp_path) as kept:
        explored(kept)
    return tmp_path


def files(path: Path, beginning: str = "") -> list[Path]:
    return sorted(file for file in path.iterdir() if file.name.startswith(beginning) and file.name != storage.LOCK)


def test_what_is_damaged_is_refused_by_name(checkpoint: Path) -> None:
    names = [file.name for file in files(checkpoint)]
    assert {name.split(".")[0] for name in names} >= {"rows", "parents", "content", "checkpoint"}
    assert any(name.startswith("run-") for name in names)
    for file in files(checkpoint):
        right = file.read_bytes()
        for wrong in (right[:9] + bytes([right[9] ^ 1]) + right[10:], right[: len(right) // 99], b""):
            file.write_bytes(wrong)
            with pytest.raises(CheckpointError, match=rf"the checkpoint in .* {re.escape(file.name)} (is|has)"):
                resume(checkpoint)
        file.unlink()
        with pytest.raises(CheckpointError):
            resume(checkpoint)
        file.write_bytes(right)
    resume(checkpoint)


def resume(path: Path, machine: Machine[Any] = KIP320, **how: Any) -> None:
    with went_on(path, machine, **how):
        pass


def test_a_checkpoint_of_something_else_is_refused_in_words(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match=r"it is of max_records=2, not 3: begin a new search in another folder$"):
        resume(checkpoint, Kip320(max_records=3))
    with pytest.raises(CheckpointError, match=r"it is of the machine Kip320, not DieHard; replicas=3, not none; "):
        resume(checkpoint, DieHard())
    with pytest.raises(CheckpointError, match=r"it is of symmetry=none, not True: begin"):
        resume(checkpoint, symmetry=True)
    monkeypatch.setattr("tidegauge.model_tests.harness.storage.identity._source_of", lambda machine: "another")
    with pytest.raises(CheckpointError, match="the specification's source has changed since"):
        resume(checkpoint)


def test_the_source_of_a_machine_is_in_the_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tmp_path / "spec"
    spec.mkdir()
    monkeypatch.setattr("tidegauge.model_tests.harness.storage.identity._SPEC", spec)
    hashes = {identity_of(KIP320)["source"]}
    for text in ("a = 1", "a = 2"):
        (spec / "rules.py").write_text(text)
        hashes |= {identity_of(KIP320)["source"], identity_of(DieHard())["source"]}
    (spec / "rules.py").rename(spec / "other.py")
    hashes |= {identity_of(KIP320)["source"]}
    assert len(hashes) == 6


def test_a_folder_is_taken_once_and_not_from_others(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has a checkpoint: resume it"), began(checkpoint):
        pass
    with went_on(checkpoint), pytest.raises(CheckpointError, match="another search uses"):
        resume(checkpoint)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("")
    with pytest.raises(CheckpointError, match=r"has other files \(thesis.tex\)"), began(other):
        pass
    assert [entry.name for entry in other.iterdir()] == ["thesis.tex"]


def test_a_checkpoint_that_names_what_no_state_is_made_of_is_refused() -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, ("true",)

    for harm in (Harm(), {"layout": [resume]}):
        with pytest.raises(pickle.UnpicklingError, match="which is no class of a specification"):
            loaded(pickle.dumps(harm)) if isinstance(harm, dict) else loaded(pickle.dumps(Harm()))
    states = (frozenset({1}), next(iter(KIP320.initial())), DieHard(), Cut.DEPTH)
    assert loaded(pickle.dumps(states)) == states


class FullFrom(Folder):
    """The disk has room for so many checkpoints."""

    room = 3

    def save(self, counts: Mapping[str, int], content: Mapping[str, Any]) -> None:
        if self.checkpoints == self.room:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        super().save(counts, content)


@pytest.fixture
def _limits_are_set_back() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_limits_are_set_back")
def test_a_full_disk_is_told_and_the_checkpoint_before_is_whole(
    tmp_path: Path, whole: Exploration[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = rf"states cannot be kept in {tmp_path}: .*File too large.*; the last checkpoint in {tmp_path} is whole"
    with monkeypatch.context() as patched:
        patched.setattr(storage, "Folder", FullFrom)
        with pytest.raises(StorageError, match=told), began(tmp_path) as kept:
            explored(kept)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with went_on(tmp_path) as kept:
        assert explored(kept) == whole


def test_a_disk_without_room_for_states_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, offset: int, size: int) -> None:
        if size > 20_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(descriptor, offset + size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        pytest.raises(StorageError, match=r"No space left on device\); no checkpoint was saved"),
        began(tmp_path) as kept,
    ):
        explored(kept)


def test_files_of_a_search_without_checkpoints_do_not_stay(tmp_path: Path, whole: Exploration[Any]) -> None:
    with storage.passing(SMALL, tmp_path) as kept:
        assert explored(kept) == whole
        (path,) = tmp_path.iterdir()
        assert len(files(path)) < 20
    assert not [*tmp_path.iterdir()]


def test_a_search_that_saved_no_checkpoint_leaves_no_files(tmp_path: Path, whole: Exploration[Any]) -> None:
    with storage.begun(tmp_path, identity_of(KIP320), SMALL, every_s=3600) as kept:
        assert explored(kept) == whole
    assert not files(tmp_path)


def test_only_the_files_of_the_last_checkpoint_stay(checkpoint: Path) -> None:
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    used = {manifest["content"]["file"], MANIFEST, *[array["file"] for array in manifest["arrays"].values()]}
    assert {file.name for file in files(checkpoint)} == used
    (checkpoint / "rows.99").write_bytes(b"of a search that was killed")
    resume(checkpoint)
    assert {file.name for file in files(checkpoint)} == used


def test_a_storage_is_the_fast_engines(tmp_path: Path) -> None:
    with began(tmp_path) as kept:
        with pytest.raises(ValueError, match="limits of memory and checkpoints are the fast engine's"):
            explore(DieHard(), storage=kept, engine=Engine.PLAIN)
        found = explore(DieHard(), storage=kept, workers=2)
    assert (found.engine, found.workers) == (Engine.FAST, 2)
    assert found == explore(DieHard(), engine=Engine.FAST)
