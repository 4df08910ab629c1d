"""A trace as one lane sees it: what changes in it, the messages that leave or reach it, and no other step."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.__main__ import run
from tidegauge.commands.showing import walked
from tidegauge.model_tests.harness.counterexamples.files import FOLDER, load
from tidegauge.model_tests.harness.counterexamples.replay import Level, replay
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.report.diagram import lanes_of
from tidegauge.model_tests.harness.report.model import Arrow, Passage, Step
from tidegauge.model_tests.harness.report.projection import narrated, projected
from tidegauge.model_tests.spec.kernel.toys import DieHard
from tidegauge.spec.kernel.traces import violated_in

NAMES = ("kafka_1211", "kafka_10284", "kafka_18227", "kafka_16147", "kafka_19862")


def steps_of(name: str) -> tuple[Step, ...]:
    """The trace of a counterexample as its diagram has it."""
    counterexample = load(FOLDER / f"{name}.json")
    return HARNESS.of(counterexample.machine).steps(replay(counterexample, Level.SPEC).trace)


def test_a_broker_sees_its_own_log_and_its_own_messages() -> None:
    lines = list(narrated(steps_of("kafka_1211"), "broker 2"))
    cut = lines.index("     log: [v0@0] → []")
    assert lines[cut - 3 : cut] == [
        "13. ApplyMetadata: broker 2",
        "     receives from controller: metadata: leader 1, epoch 1, ISR {1, 2}",
        "     role: follower of 0 → follower of 1",
    ]
    assert "     sends to broker 0: fetch from 0, epoch 0" in lines
    assert "     broker 0 sends: no records, HW 1" in lines
    assert not any("broker 1" in line for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_the_lanes_together_have_every_step_that_changes_something(name: str) -> None:
    steps = steps_of(name)
    seen = {one.number for lane in lanes_of(steps) for one in projected(steps, lane)}
    shown = [attrs.evolve(step, action="", detail="", arrows=()) for step in steps]
    assert seen >= {number for number, step in enumerate(shown) if number == 0 or step != shown[number - 1]}


@pytest.mark.parametrize(
    ("passage", "at_source", "at_target"),
    [
        (Passage.SENT, "sends to b: m", "a sends: m"),
        (Passage.DELIVERED, "reaches b: m", "receives from a: m"),
        (Passage.LOST, "lost on the way to b: m", "lost on the way from a: m"),
    ],
)
def test_a_message_is_told_from_where_the_lane_is(passage: Passage, at_source: str, at_target: str) -> None:
    kept: Any = steps_of("kafka_10284")[0]
    lanes = [attrs.evolve(kept.parties[0], lane=lane) for lane in "abc"]
    quiet = attrs.evolve(kept, parties=tuple(lanes))
    moved = attrs.evolve(quiet, action="Move", arrows=(Arrow("a", "b", "m", passage),))
    told = {lane: [one.messages for one in projected((quiet, moved), lane)[1:]] for lane in "abc"}
    assert told == {"a": [(at_source,)], "b": [(at_target,)], "c": []}


def test_another_lane_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="there is no lane 'broker 9': choose one of client, controller, broker 0"):
        projected(steps_of("kafka_1211"), "broker 9")


def test_both_commands_tell_one_lane(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(FOLDER / "kafka_10284.json")
    assert run(["replay", file, "--on", "spec", "--lane", "process 0"]) == 1
    replayed = capsys.readouterr().out
    assert "member id: " in replayed
    assert "member_ids: 0" not in replayed, "that is in the lane of the state"
    assert run(["explore", "unregistering", "--bug", "stays_in_sync", "--lane", "controller"]) == 1
    assert "is violated, in a trace of" in (told := capsys.readouterr().out)
    assert "\n     leader epoch: 0\n" in told
    assert "replicas[" not in told
    for words in (["explore", "replication"], ["replay", file]):
        assert run([*words, "--lane", "nobody"]) == 2
        assert "--lane: there is no lane 'nobody': choose one of " in capsys.readouterr().err


def test_the_page_begins_with_the_walk_of_a_seed(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    page = tmp_path / "page.html"
    words = ["explore", "group-loading", "members=1", "--page", str(page), "--page-seed", "3", "--page-states", "5"]
    assert run(words) == 0
    written = page.read_text()
    assert '"name":"the walk of seed 3"' in written
    assert "--page-seed 3" in written
    assert "<option>group</option>" in written, "its lanes can be chosen"
    capsys.readouterr()
    assert run(["explore", "group-loading", "--page-seed", "3"]) == 2
    assert "--page-seed 3: name the page, by --page FILE" in capsys.readouterr().err
    assert run(["explore", "group-loading", "--page-states", "5"]) == 2
    assert "--page-states 5: name the page, by --page FILE" in capsys.readouterr().err


def test_a_walk_of_a_seed_that_breaks_a_property_says_so() -> None:
    assert [way.name for way in walked(DieHard(), 0)] == ["the walk of seed 0"]
    (way,) = walked(DieHard(), 97)
    assert way.name == "the walk of seed 97: NotFour is violated"
    assert "NotFour" in list(violated_in(DieHard(), way.trace.last))
    assert not walked(DieHard(), None)
