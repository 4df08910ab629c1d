"""A trial ends with the first part that fails; a campaign keeps what was tried, and refuses stale equivalents."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from tidegauge.impl.partition.high_watermark import HighWatermark
from tidegauge.impl.partition.registration import broker_ids
from tidegauge.model_tests.mutants import campaign, trials
from tidegauge.model_tests.mutants import measurements as measurement_files
from tidegauge.model_tests.mutants.campaign import Campaign, Wanted, all_mutants, drawn, installer, parts_for
from tidegauge.model_tests.mutants.equivalents import EQUIVALENT, StaleError, refuse_gone, refuse_killed
from tidegauge.model_tests.mutants.measurements import Measurements
from tidegauge.model_tests.mutants.operators import SourceModule
from tidegauge.model_tests.mutants.patching import ROOT, Patcher, patcher_of, source_module
from tidegauge.model_tests.mutants.results import Result, append, digest, read, scores, table
from tidegauge.model_tests.mutants.rings import Part, Ring, lockstep_parts
from tidegauge.model_tests.mutants.trials import Killed, Measured, UnsoundError, bits, in_child, measured, trial

FIRST_WALKS = "lockstep on cores: walks 0-9 of replication"
GUARD = "HighWatermark.next_high_watermark: guard"
OFF_BY_ONE = "HighWatermark._set_high_watermark: `offset > self.high_watermark` -> `offset >= self.high_watermark`"
BELIEVES = "a follower believes its leader's high watermark"
FILE = ROOT / "impl" / "partition" / "high_watermark.py"


def part(check: Callable[[], str], ring: Ring = Ring.CORES, name: str = "a part") -> Part:
    return Part(ring, name, lambda roles: check())


def unchanged() -> None:
    """No mutant."""


def first_walks() -> Part:
    return next(one for one in lockstep_parts(1) if one.name == FIRST_WALKS)


def mutant(words: str) -> Any:
    return next(one for _, one in all_mutants() if words in one.name)


@cache
def patcher_at(paths: frozenset[str]) -> Patcher:
    """Of the modules there, made once: a process that runs all tests has millions of objects to look through."""
    return patcher_of(source_module(path) for path in sorted(paths))


def patcher_once(modules: Iterable[SourceModule]) -> Patcher:
    return patcher_at(frozenset(module.path for module in modules))


@pytest.fixture(autouse=True, scope="module")
def _campaigns_look_through_all_objects_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign, "patcher_of", patcher_once)
        yield
    patcher_at.cache_clear()


# --- trials ----------------------------------------------------------------------------------------------------------


def test_each_process_has_temporary_files_of_its_own_so_that_workers_remove_none_of_each_other() -> None:
    here = dict(os.environ)
    folders = []
    for _ in range(2):
        ((told,), _) = in_child(lambda tell: tell({"files": os.environ[trials.TEMPORARY_FILES], "cwd": os.getcwd()}))
        assert told["files"] == told["cwd"]
        folders.append(told["files"])
    assert len(set(folders)) == 2
    assert dict(os.environ) == here


@pytest.mark.parametrize("words", [GUARD, "refusal removed: append at a follower", BELIEVES])
def test_lockstep_on_cores_kills_a_mutant_which_leaves_no_trace(words: str) -> None:
    one, before, code = mutant(words), digest([FILE]), HighWatermark.next_high_watermark.__code__
    patcher = patcher_once([one.function.module] if hasattr(one, "function") else [])
    killed = trial(installer(one, patcher), [(part(lambda: ""), 1.0), (first_walks(), 1.0)])
    assert killed is not None
    assert (killed.ring, killed.part) == (Ring.CORES, FIRST_WALKS)
    assert HighWatermark.next_high_watermark.__code__ is code
    assert digest([FILE]) == before


def test_without_a_mutant_the_same_part_holds_and_names_the_lines_that_it_runs() -> None:
    function = mutant(GUARD).function
    another = part(_calls_and_checks_nothing, name="another")
    found = measured([first_walks(), part(lambda: ""), another], _patcher())
    walks, nothing, other = (one for one in found.values() if isinstance(one, Measured))
    path, lines = function.module.path, mutant(GUARD).lines
    assert walks.runs(path, lines)
    assert walks.runs(path, function.lines)
    assert walks.runs_any([path])
    assert walks.seconds > 0
    assert not other.runs(path, function.lines)
    assert other.runs(path, mutant(OFF_BY_ONE).lines)
    assert not nothing.lines
    assert not nothing.runs_any([path])


def _patcher() -> Patcher:
    return patcher_once([mutant(GUARD).function.module])


def test_what_functions_have_remembered_is_forgotten_but_the_mutants_are_not() -> None:
    caches = patcher_once([]).caches
    assert broker_ids in caches
    assert all_mutants not in caches


def test_a_part_that_fails_without_a_mutant_is_told_of() -> None:
    parts = [part(lambda: "it rained"), part(lambda: os._exit(3), name="the end"), part(lambda: "", name="not begun")]
    rained, ended = measured(parts, patcher_once([])).values()
    assert rained == "a part fails without any mutant: it rained"
    assert str(ended).startswith("the end ends its process without any mutant")


def test_a_mutant_that_computes_for_ever_is_killed_by_its_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LEAST_SECONDS", 0.05)

    def compute() -> str:
        while True:
            pass

    killed = trial(unchanged, [(part(compute, Ring.SIMULATION), 0.0)])
    assert killed == Killed(Ring.SIMULATION, "a part", trials.LIMIT)


def test_a_process_that_sleeps_for_ever_is_ended_with_all_that_it_has_started() -> None:
    began = time.monotonic()

    def work(tell: trials.Tell) -> None:
        child = os.fork()
        if child:
            tell({"child": child})
        time.sleep(600)

    told, status = in_child(work, wall_seconds=0.2)
    assert os.WIFSIGNALED(status)
    assert time.monotonic() - began < 300
    assert any(_has_ended(told[0]["child"]) for _ in range(1_000))


@pytest.mark.parametrize("awake", [0.0, inf])
def test_a_process_that_works_for_longer_is_ended_only_where_any_is(awake: float) -> None:
    def work(tell: trials.Tell) -> None:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        tell({"worked": True})

    told, _ = in_child(work, wall_seconds=0.1, awake=awake)
    assert bool(told) is (awake == 0.0)


def test_what_a_process_uses_of_the_processors_is_counted() -> None:
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert trials.processor_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.05)


def _has_ended(process: int) -> bool:
    """Whether it is gone, or a zombie that nobody has waited for; else after a moment."""
    status = Path(f"/proc/{process}/stat")
    if not status.exists() or status.read_text().rpartition(") ")[2].startswith("Z"):
        return True
    time.sleep(0.01)
    return False


def test_what_raises_kills_and_later_parts_are_not_begun() -> None:
    def fail() -> str:
        raise KeyError("broker 3")

    parts = [(part(lambda: ""), 0.0), (part(fail, Ring.CLUSTER, "second"), 0.0), (part(fail), 0.0)]
    assert trial(unchanged, parts) == Killed(Ring.CLUSTER, "second", "KeyError: 'broker 3'")
    assert trial(unchanged, parts[:1]) is None


# --- campaigns -------------------------------------------------------------------------------------------------------


def run(wanted: Wanted, folder: Path, *parts: Part) -> tuple[list[Result], list[str]]:
    lines: list[str] = []
    return Campaign(wanted, folder, parts, lines.append).run(), lines


def _calls_and_checks_nothing() -> str:
    HighWatermark._set_high_watermark(cast(HighWatermark, SimpleNamespace(high_watermark=1, _effects=[])), 0)
    return ""


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    parts = [part(_calls_and_checks_nothing)]
    one = Wanted(words=OFF_BY_ONE)
    (survivor,), lines = run(one, tmp_path, *parts)
    assert not survivor.is_killed
    assert lines[-2].startswith("SURVIVES")
    two = Wanted(words="HighWatermark._set_high_watermark: `offset > self.high_watermark`")
    results, lines = run(two, tmp_path, *parts)
    assert len(results) == 2
    assert sum("_set_high_watermark" in line for line in lines) == 1
    assert run(Wanted(words=GUARD, seconds=-1), tmp_path, *parts) == (
        [],
        ["1 of 1 mutants are left: the next run goes on with them"],
    )


@pytest.mark.deep
def test_workers_share_the_mutants_and_their_pace_is_told(tmp_path: Path) -> None:
    wanted = Wanted(words="HighWatermark._set_high_watermark: ", workers=2)
    results, lines = run(wanted, tmp_path, part(_calls_and_checks_nothing))
    names = {one.mutant for one in results}
    assert len(names) == len(results) > 2
    assert (tmp_path / "results.jsonl").read_text().count("\n") == len(results)
    assert sum("SURVIVES" in line for line in lines) == (len(results) + 1) // 2, "the other half is the other worker's"
    assert re.fullmatch(rf"{len(results)} mutants in \d+ s, \d+\.\d+ s of CPU each", lines[-1])


@pytest.mark.deep
def test_unit_tests_go_first_where_only_the_kill_counts(tmp_path: Path) -> None:
    states = {"begun": False}

    def fails_in_a_trial() -> str:
        return _calls_and_checks_nothing() + "it fails" * states["begun"]

    parts = [part(fails_in_a_trial, name="walks"), part(fails_in_a_trial, Ring.UNIT, "a test")]
    patcher, folder = _patcher(), tmp_path / "results"
    for unit_tests_first, ring in ((False, Ring.CORES), (True, Ring.UNIT)):
        states["begun"] = False
        wanted = Wanted(words=OFF_BY_ONE, unit_tests_first=unit_tests_first)
        one = Campaign(wanted, folder, parts, lambda line: None)
        without = one._measurements.of(parts, (), patcher, lambda: True)
        assert without is not None
        states["begun"] = True
        found = one._tried("partition", mutant(OFF_BY_ONE), parts, patcher, without)
        assert found.ring == ring.value


@pytest.mark.deep
def test_other_tests_try_survivors_again_and_all_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Wanted(words="HighWatermark.next_high_watermark: `max")
    (name,) = [one.name for _, one in drawn(all_mutants(), wanted)]
    monkeypatch.setattr(campaign, "digest_of_everything", lambda: "now")
    killed = Result(name, "partition", Ring.UNIT.value, "a test", by="before", of=digest([FILE]))
    append(tmp_path / "results.jsonl", killed)
    trusting = Wanted(words=wanted.words, only_survivors=True)
    assert run(trusting, tmp_path, first_walks())[0] == [killed]
    (again,), _ = run(wanted, tmp_path, first_walks())
    assert (again.ring, again.by) == (Ring.CORES.value, "now/2")


def test_results_of_other_rounds_or_rings_are_kept_beside_each_other(tmp_path: Path) -> None:
    words = "HighWatermark._set_high_watermark: `offset > "
    twice, once = Wanted(words=OFF_BY_ONE), Wanted(words=words, rounds=1)
    (first,), _ = run(twice, tmp_path, part(_calls_and_checks_nothing))
    assert len(run(once, tmp_path, part(_calls_and_checks_nothing))[0]) == 2
    (again,), lines = run(twice, tmp_path)
    assert (again, lines) == (first, []), "it is not tried again"
    killed = attrs.evolve(first, ring=Ring.UNIT.value, by="before", of=digest([FILE]))
    append(tmp_path / "results.jsonl", killed)
    trusting = Wanted(words=OFF_BY_ONE, rounds=3, only_survivors=True)
    append(tmp_path / "results.jsonl", attrs.evolve(killed, ring=None, by="other rings"))
    assert run(trusting, tmp_path)[0] == [killed], "a kill counts, though it survived other rings later"


def test_a_mutant_whose_line_nothing_runs_survives(tmp_path: Path) -> None:
    (one,), _ = run(Wanted(words=OFF_BY_ONE), tmp_path, part(lambda: ""))
    assert (one.ring, one.why) == (None, "nothing runs it")


def test_an_equivalent_mutant_that_is_killed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Wanted(words=GUARD)
    monkeypatch.setitem(EQUIVALENT, mutant(GUARD).name, "they say")
    with pytest.raises(StaleError, match="walks 0-9 of replication kills it, so it is not equivalent"):
        run(wanted, tmp_path, first_walks())


def test_an_equivalent_mutant_that_is_gone_is_refused() -> None:
    refuse_gone(["one", "other"], {"one": "for a reason"})
    with pytest.raises(StaleError, match=r"there is no such mutant any more.*: one"):
        refuse_gone(["other"], {"one": "for a reason"})
    refuse_killed("other", "a test", {"one": "for a reason"})


def test_the_equivalent_mutants_are_there_each_with_a_reason() -> None:
    refuse_gone(one.name for _, one in all_mutants())
    assert all(len(reason.split()) > 3 for reason in EQUIVALENT.values())


def test_a_mutant_is_tried_by_what_runs_its_line_first_by_what_has_killed_most_in_its_file_and_is_quick() -> None:
    one, path = mutant(GUARD), "impl/partition/high_watermark.py"
    line = {path: bits(one.lines)}
    tests = Part(Ring.UNIT, "a test", lambda roles: "", tests_of="model_tests/partition/test_isr.py")
    other_rooms = Part(Ring.UNIT, "another room's", lambda roles: "", tests_of="model_tests/storage/test_log.py")
    named = {name: part(lambda: "", name=name) for name in ("slow", "quick", "lucky", "elsewhere")}
    without = {name: Measured(seconds, line) for name, seconds in (("slow", 3.0), ("quick", 1.0), ("lucky", 9.0))}
    without |= {"a test": Measured(0.1, line), "another room's": Measured(0.1, line)}
    without["elsewhere"] = Measured(0.1, {path: bits([one.lines.start - 1]), "impl/partition/isr.py": bits(one.lines)})
    parts = [tests, other_rooms, *named.values()]
    found = [found.name for found, _ in parts_for("partition", one, parts, without, {(path, "lucky"): 2})]
    assert found == ["lucky", "quick", "slow", "a test"]


def test_a_share_is_drawn_by_seed_and_each_mutant_by_its_name() -> None:
    everything = all_mutants()

    def names(share: int, seed: int, among: Sequence[Any] = everything) -> set[str]:
        return {one.name for _, one in drawn(among, Wanted(share=share, seed=seed))}

    tenth = names(10, 1)
    assert 0.07 < len(tenth) / len(everything) < 0.13
    assert tenth != names(10, 2)
    assert tenth <= names(20, 1)
    assert names(10, 1, everything[::2]) == tenth & {one.name for _, one in everything[::2]}
    assert names(100, 1) == {one.name for _, one in everything}


# --- what is measured without a mutant --------------------------------------------------------------------------------


def measurements(folder: Path, tree: str = "now", workers: int = 1) -> tuple[Measurements, list[str]]:
    lines: list[str] = []
    return Measurements(folder / "measured.jsonl", tree, workers, lines.append), lines


def always() -> bool:
    return True


@pytest.fixture
def _measured_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without processes, and without the half second that tracing takes to begin."""

    def at_once(parts: Sequence[Part], patcher: Patcher) -> dict[str, Measured | str]:
        return {one.name: trials.outcome(one, None) or Measured(1.0, {}) for one in parts}

    monkeypatch.setattr(measurement_files, "measured", at_once)


@pytest.mark.usefixtures("_measured_at_once")
def test_a_measurement_is_kept_as_it_comes_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    parts = [part(lambda: "", name=f"part {number}") for number in range(4)]
    one, lines = measurements(tmp_path)
    turns = iter([True, True, False])
    assert one.of(parts, (), patcher_once([]), lambda: next(turns)) is None
    assert sorted(one.known()) == ["part 0", "part 1"]
    with (tmp_path / "measured.jsonl").open("a") as cut_short:
        cut_short.write('{"tree": "now", "part": "par\n')
    found = one.of(parts, (), patcher_once([]), always)
    assert found is not None
    assert sorted(found) == [f"part {number}" for number in range(4)]
    assert lines[::3] == ["4 parts are run without a mutant", "2 parts are run without a mutant"]
    assert lines[1] == "1 of 4 parts are measured"
    assert measurements(tmp_path, "another tree")[0].known() == {}


@pytest.mark.usefixtures("_measured_at_once")
def test_workers_share_what_is_measured(tmp_path: Path) -> None:
    parts = [part(lambda: "", name=f"part {number}") for number in range(5)]
    one, _ = measurements(tmp_path, workers=2)
    found = one.of(parts, (), patcher_once([]), always)
    assert found is not None
    assert len(found) == len((tmp_path / "measured.jsonl").read_text().splitlines()) == len(parts)


@pytest.mark.usefixtures("_measured_at_once")
def test_parts_that_fail_are_told_together_when_the_others_are_measured(tmp_path: Path) -> None:
    snow = Part(Ring.UNIT, "a test", lambda roles: "it snowed", tests_of="model_tests/partition/test_isr.py")
    good = Part(Ring.UNIT, "good", lambda roles: "", tests_of="model_tests/partition/test_isr.py")
    parts = [part(lambda: "it rained"), snow, good]
    one, _ = measurements(tmp_path)
    words = "it rained; it snowed"
    for _ in range(2):  # what failed is tried again
        with pytest.raises(UnsoundError, match=words):
            one.of(parts, (), patcher_once([]), always)
    assert sorted(one.known()) == ["good"]


def test_later_walks_are_measured_only_where_the_first_ones_run_what_is_changed(tmp_path: Path) -> None:
    run: list[Part] = [
        part(_calls_and_checks_nothing, name="first"),
        Part(Ring.CORES, "second", lambda roles: _calls_and_checks_nothing(), after="first"),
    ]
    one, _ = measurements(tmp_path)
    found = one.of(run, {"impl/partition/isr.py"}, _patcher(), always)
    assert found is not None
    assert not found["second"].lines
    assert sorted(one.known()) == ["first"]
    found = one.of(run, {"impl/partition/high_watermark.py"}, _patcher(), always)
    assert found is not None
    assert found["second"].lines == found["first"].lines
    turns = {one.name: one.after for one in lockstep_parts(1) if one.machine == "replication"}
    assert turns["lockstep on cores: walks 10-19 of replication over stored logs"] == f"{FIRST_WALKS} over stored logs"
    assert turns[FIRST_WALKS] is None


def test_only_parts_of_the_rooms_that_are_tried_are_measured(tmp_path: Path) -> None:
    elsewhere = Part(Ring.UNIT, "another room's", lambda roles: "it rained", tests_of="model_tests/storage/test_log.py")
    (survivor,), lines = run(Wanted(words=OFF_BY_ONE), tmp_path, part(_calls_and_checks_nothing), elsewhere)
    assert not survivor.is_killed
    assert lines[0] == "1 parts are run without a mutant"


# --- the score -------------------------------------------------------------------------------------------------------


def test_the_score_counts_what_is_not_equivalent_and_names_survivors(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    for name, ring in (("a", "lockstep on cores"), ("b", "unit tests"), ("c", None), ("d", None), ("d", "simulation")):
        append(file, Result(name, "partition", ring))
    append(file, Result("e", "partition", None))
    append(file, Result("f", "spec/replication", "explorer"))
    with file.open("a") as lines:
        lines.write(json.dumps({"mutant": "cut"})[:-4])
    results = [list(of.values())[-1] for of in read(file).values()]
    partition, spec = scores(results, {"e"})
    assert (partition.percent, partition.formal_percent) == (75.0, 50.0)
    assert (partition.survivors, partition.equivalent) == (("c",), 1)
    assert (spec.room, spec.percent, spec.formal_percent) == ("spec/replication", 100.0, 100.0)
    printed = table(results, {"e"})
    assert printed.splitlines()[0] == "survives: c"
    assert "75.0 %" in printed
    assert scores([], ())[:] == []
