"""Spark explores what the plain engine explores: the same states by the same numbers, and goes on after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.kernel.toys import Ceremony, DieHard, Table
from tidegauge.spark_check import explore as command
from tidegauge.spark_check.errors import BadOutput, CannotRun
from tidegauge.spark_check.exploring import MANIFEST, _Search, explore_by_spark
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.shipping import EXPLORING, pack
from tidegauge.spark_check.state_rows import PLACES, Explored, Explorer, expand
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.progress import Cut, Limits, Stop
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.registry import REGISTRY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JUGS = partial(DieHard, (1, 3))
SMALL = partial(Kip320, replicas=2, max_records=1, max_leader_epoch=0)


def plainly(machine: Machine[Any], *, depth: int | None = None, symmetry: bool = False) -> Exploration[Any]:
    return explore(machine, engine=Engine.PLAIN, stop=Stop.NEVER, symmetry=symmetry, limits=Limits(depth=depth))


NAMES = ["kip320", "network", "transactions-coordinator", "groups-leaving", "recovery"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "kip320" else pytest.mark.deep) for name in NAMES]
)
@pytest.mark.spark
def test_a_model_is_explored_alike_though_tasks_number_few_states(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    make, depth = partial(REGISTRY.machine, name), amount(4, deep=12)
    found = explore_by_spark(spark, make, str(tmp_path), max_depth=depth, together=8)
    assert found == plainly(make(), depth=depth)
    assert found.cut is Cut.DEPTH


@pytest.mark.deep
@pytest.mark.spark
def test_orbits_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    found = explore_by_spark(spark, SMALL, str(tmp_path), symmetry=True)
    assert found == plainly(SMALL(), symmetry=True)
    assert (found.orbits or 0) > found.distinct


@pytest.mark.spark
def test_violations_are_counted_and_told_by_the_same_traces(spark: SparkSession, tmp_path: Path) -> None:
    found = explore_by_spark(spark, Ceremony, str(tmp_path / "all"))
    assert found == plainly(Ceremony())
    assert [(each.invariant, each.count) for each in found.violations] == [("NoThirdInARow", 16)]
    first = explore_by_spark(spark, Ceremony, str(tmp_path / "all"), stop=Stop.FIRST, resume=True)
    assert first.cut is None
    assert first.violations[0].trace == explore(Ceremony(), engine=Engine.PLAIN).violations[0].trace


@pytest.mark.deep
@pytest.mark.spark
def test_a_violation_ends_the_search_behind_its_level(spark: SparkSession, tmp_path: Path) -> None:
    first = explore_by_spark(spark, Ceremony, str(tmp_path), stop=Stop.FIRST)
    assert first.cut is Cut.VIOLATION
    assert first == evolve(plainly(Ceremony(), depth=first.depth), cut=Cut.VIOLATION)


class Cracked(DieHard):
    """A rule raises where the first jug has one litre."""

    def actions(self, state: Table) -> Iterator[Action]:
        assert state.jugs[0].litres != 1, "cracked"
        yield from super().actions(state)


@pytest.mark.deep
@pytest.mark.spark
def test_a_rule_that_raises_is_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"Spark failed: AssertionError: cracked\. Levels that are whole are kept"):
        explore_by_spark(spark, Cracked, str(tmp_path))


def test_every_state_of_a_model_is_the_same_as_bytes_and_back() -> None:
    for name in REGISTRY.names:
        machine = REGISTRY.machine(name)
        explorer, other = Explorer(machine, symmetry=False), Explorer(machine, symmetry=False)
        states = dict.fromkeys(machine.initial())
        for state in (waiting := [*states]):
            packed = explorer.packed(state)
            again = other.state(packed)
            assert again == state, name
            assert other.packed(again) == packed, name
            if len(states) < amount(30, deep=1000):
                new = [after for _, after in machine.successors(state) if after not in states]
                states |= dict.fromkeys(new)
                waiting += dict.fromkeys(new)


@pytest.mark.spark
def test_a_search_goes_on_behind_its_last_whole_level(spark: SparkSession, tmp_path: Path) -> None:
    whole = explore_by_spark(spark, JUGS, str(tmp_path))
    assert whole == plainly(JUGS())
    for note in sorted((tmp_path / "_levels").iterdir())[3:]:
        note.unlink()
    half = tmp_path / "level-00003" / "part-00000.parquet"
    half.write_bytes(b"half-written")
    with pytest.raises(BadOutput, match="has a search: --resume goes on with it"):
        explore_by_spark(spark, JUGS, str(tmp_path))
    assert explore_by_spark(spark, JUGS, str(tmp_path), resume=True) == whole


def test_a_search_of_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Spark is asked for anything."""
    spark: Any = None
    with pytest.raises(BadOutput, match="nowhere has no search to go on with"):
        explore_by_spark(spark, SMALL, str(tmp_path / "nowhere"), resume=True)
    assert not (tmp_path / "nowhere").exists()
    search = _Search(spark, SMALL, Place.of(tmp_path), symmetry=False, together=1)
    (tmp_path / MANIFEST).write_text(json.dumps(search.identity))
    with pytest.raises(BadOutput, match="has a search: --resume goes on with it"):
        explore_by_spark(spark, SMALL, str(tmp_path))
    with pytest.raises(BadOutput, match="has a search of something else: constants differ"):
        explore_by_spark(spark, partial(SMALL, max_records=2), str(tmp_path), resume=True)
    with pytest.raises(BadOutput, match="symmetry differ"):
        explore_by_spark(spark, SMALL, str(tmp_path), symmetry=True, resume=True)
    monkeypatch.setattr("tidegauge.spark_check.exploring._source", lambda: "another")
    with pytest.raises(BadOutput, match="source differ"):
        explore_by_spark(spark, SMALL, str(tmp_path), resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(BadOutput, match="is not empty"):
        explore_by_spark(spark, SMALL, str(tmp_path / "other"))
    with pytest.raises(BadOutput, match=r"thesis\.tex cannot be written \(.*\): name another folder"):
        explore_by_spark(spark, SMALL, str(tmp_path / "other" / "thesis.tex"))


def test_tasks_find_what_is_reached_and_count_it() -> None:
    """Without Spark: the first step to each state, and the same numbers of steps as the plain engine has."""
    of = Explored("ceremony", Ceremony)
    explorer = of.explorer()
    (state,) = Ceremony().initial()
    frontier = pa.RecordBatch.from_pydict({"number": [7], "state": [explorer.packed(state)]})
    *reached, counted = [row for batch in expand(of, [frontier]) for row in batch.to_pylist()]
    successors = [after for _, after in Ceremony().successors(state)]
    assert [explorer.state(row["state"]) for row in reached] == successors
    assert [row["step"] for row in reached] == [7 * PLACES + place for place in range(len(successors))]
    told = json.loads(counted["told"])
    assert told["out_degrees"] == [[len(successors), 1]]
    assert sum(count for _, count in told["taken"]) == len(successors)


WORDS = ["kip320", "replicas=2", "max_records=0", "max_leader_epoch=0"]


@pytest.mark.deep
@pytest.mark.spark
def test_a_process_that_is_killed_is_resumed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, words = tmp_path / "states", [*WORDS, "--out", str(tmp_path / "states")]
    with subprocess.Popen(
        [sys.executable, "-m", command.__name__, *words], stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        notes, deadline = out / "_levels", time.monotonic() + 300
        while not notes.is_dir() or len([*notes.iterdir()]) < 3:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    assert command.main([*words, "--resume", "--json"]) == 0
    told, one = json.loads(capsys.readouterr().out), plainly(SMALL(max_records=0))
    assert (told["distinct"], told["generated"], tuple(told["levels"])) == (one.distinct, one.generated, one.levels)


def test_what_cannot_be_explored_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.main(["kip321", "--out", str(tmp_path)]) == 2
    assert "there is no specification 'kip321': choose one of kip320" in capsys.readouterr().err
    assert command.main([*WORDS, "replicas=0", "--out", str(tmp_path)]) == 2
    assert "error: " in capsys.readouterr().err
    monkeypatch.setattr("tidegauge.spark_check.options.local_session", without_java)
    assert command.main([*WORDS, "--out", str(tmp_path)]) == 2
    assert "error: no Java" in capsys.readouterr().err


def without_java(*_: object) -> None:
    from tidegauge.spark_check.java import NoJava

    raise NoJava("no Java: set JAVA_HOME")


def test_executors_get_the_specifications_too(tmp_path: Path) -> None:
    """The package that the driver sends explores by itself, without the one that is installed."""
    archive = pack(tmp_path / "sent.zip", EXPLORING)
    ours = "import sys; sys.path.insert(0, sys.argv[1]); from tidegauge.spark_check import state_rows as s; "
    run = ours + "print(s.__file__); print(s.named_machine('kip320', None, ['max_records=1']).max_records)"
    told = subprocess.run([sys.executable, "-c", run, str(archive)], capture_output=True, text=True, check=True).stdout
    assert told.split() == [f"{archive}/tidegauge/spark_check/state_rows.py", "1"]
