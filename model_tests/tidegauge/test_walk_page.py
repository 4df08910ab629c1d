"""The page to walk through a state space by hand: what is on it, and that its data leads where the machine does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest

from tidegauge.__main__ import run
from tidegauge.model_tests.harness.counterexamples.files import FOLDER, load
from tidegauge.model_tests.harness.counterexamples.replay import Level, replay
from tidegauge.model_tests.harness.report.model import Step
from tidegauge.model_tests.harness.report.plain_steps import PlainSteps
from tidegauge.model_tests.harness.report.state_space import StateSpace, Way, state_space
from tidegauge.model_tests.harness.report.walk import walk_through
from tidegauge.model_tests.harness.report.walk_page import render_walk
from tidegauge.model_tests.spec.kernel.toys import DieHard, Fill, Pour, Table
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.progress import Stop
from tidegauge.spec.kernel.traces import Trace
from tidegauge.spec.kernel.traces import replay as replay_actions

JUGS = DieHard()


def part(*ways: Way, states: int = 1_000, machine: DieHard = JUGS) -> StateSpace:
    return state_space(machine, ways, draw=PlainSteps(), constants={}, states=states)


def data_of(page: str) -> dict[str, Any]:
    """What the script reads."""
    found = re.search(r'<script type="application/json" id="state-space">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def litres(space: StateSpace, number: int) -> str:
    return told(space.places[number].step)


def told(step: Step) -> str:
    """What a step says of the jugs after it."""
    return ", ".join(step.parties[0].values.values())


def test_with_room_for_all_states_every_one_is_there_with_all_that_may_happen_in_it() -> None:
    space = part()
    explored = explore(JUGS, stop=Stop.NEVER)
    assert space.is_whole
    assert len(space.places) == explored.distinct == 16
    assert sum(len(place.choices) for place in space.places) == explored.generated
    assert all(choice.target is not None for place in space.places for choice in place.choices)


def test_a_choice_tells_its_action_what_it_changes_and_where_it_leads() -> None:
    space = part()
    first = space.places[space.initial[0]]
    (fill,) = (choice for choice in first.choices if (choice.after.action, choice.after.detail) == ("Fill", "jug 1"))
    assert fill.changes == ("jugs[1].litres: 0 → 5",)
    assert fill.target is not None
    assert litres(space, fill.target) == told(fill.after)


def test_a_part_holds_the_states_nearest_to_its_traces_and_says_of_the_others_that_they_are_not_here() -> None:
    solution = explore(JUGS, stop=Stop.FIRST).violations[0].trace
    space = part(Way("the solution", solution), states=9)
    assert not space.is_whole
    assert len(space.places) == 9
    there = {litres(space, number) for number in range(9)}
    assert {told(PlainSteps()(Trace(state))[0]) for state in solution.states} <= there
    outward = [choice for place in space.places for choice in place.choices if choice.target is None]
    assert outward
    assert all(told(choice.after) not in there for choice in outward)


def test_a_part_has_room_for_its_traces_whatever_it_was_given() -> None:
    solution = explore(JUGS, stop=Stop.FIRST).violations[0].trace
    assert len(part(Way("the solution", solution), states=1).places) == len(solution)


def test_a_trace_is_a_way_by_choices_that_ends_in_its_last_state() -> None:
    solution = explore(JUGS, stop=Stop.FIRST).violations[0].trace
    space = part(Way("the solution", solution, cycle=2), states=10)
    (path,) = space.paths
    at = space.initial[path.initial]
    for number in path.choices:
        target = space.places[at].choices[number].target
        assert target is not None
        at = target
    assert litres(space, at) == told(PlainSteps()(Trace(solution.last))[0])
    assert (path.name, path.cycle) == ("the solution", 2)


def test_a_state_tells_which_invariant_is_false_in_it_and_a_step_out_of_the_part_tells_it_too() -> None:
    (violation,) = explore(JUGS, stop=Stop.FIRST).violations
    space = part(Way("the solution", violation.trace))
    broken = [[one.name for one in place.broken] for place in space.places]
    assert broken[len(violation.trace) - 1] == [violation.invariant]
    assert broken[0] == []
    shorter = Trace(violation.trace.initial, violation.trace.steps[:-1])
    beyond = part(Way("one step before it", shorter), states=1).places[len(shorter) - 1]
    told = {one.name for choice in beyond.choices if choice.target is None for one in choice.broken}
    assert told == {violation.invariant}


@attrs.frozen
class NeverPours(DieHard):
    """A machine whose steps may be false."""

    @property
    def step_invariants(self) -> Any:
        return {"NeverPours": lambda before, action, after: not isinstance(action, Pour)}


def test_a_step_tells_which_step_invariant_is_false_of_it() -> None:
    space = part(machine=NeverPours())
    choices = [choice for place in space.places for choice in place.choices]
    told = {(choice.after.action, *(one.name for one in choice.broken)) for choice in choices}
    assert told == {("Fill",), ("Empty",), ("Pour", "NeverPours")}


@attrs.frozen
class Unlisted(DieHard):
    """A machine that may do more than it lists, as one does that draws its actions."""

    def actions(self, state: Table) -> Any:
        return (action for action in DieHard.actions(self, state) if action != Fill(0))

    def step(self, state: Table, action: Any) -> Table:
        return DieHard().step(state, action)


def test_a_step_that_only_the_trace_has_may_be_chosen_too() -> None:
    trace = replay_actions(Unlisted(), [Fill(0), Fill(1)]).trace
    assert len(trace) == 3
    space = part(Way("both full", trace), machine=Unlisted())
    assert [choice.after.detail for choice in space.places[0].choices] == ["jug 0", "jug 1"], "the trace's comes first"


def test_no_states_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="states=0 leaves nothing to walk through"):
        part(states=0)


def test_the_pages_data_leads_where_the_machine_does_and_has_each_piece_of_markup_once() -> None:
    space = part()
    page = render_walk(space, title="jugs", reproduce="again")
    data = data_of(page)
    assert [[one["target"] for one in state["choices"]] for state in data["states"]] == [
        [choice.target for choice in place.choices] for place in space.places
    ]
    pieces = data["pieces"]
    assert len(set(pieces)) == len(pieces)
    fill = data["states"][0]["choices"][0]
    assert (pieces[fill["action"]], pieces[fill["detail"]]) == ("Fill", "jug 0")
    assert "litres=3" in pieces[fill["cards"][0]]
    assert "changed" in pieces[fill["cards"][0]]


@attrs.frozen
class Hostile(DieHard):
    """Its words are markup."""

    def explain(self, invariant: str, state: Table) -> Any:
        return {"</script><b>": "<img src=x onerror=alert(1)>"}


def test_no_word_of_a_machine_becomes_markup_or_ends_the_data() -> None:
    (violation,) = explore(Hostile(), stop=Stop.FIRST).violations
    way = Way("</script><i>", violation.trace)
    page = render_walk(part(way, machine=Hostile()), title="</title><u>", reproduce="<s>")
    assert not re.search(r"<(i|b|u|s)>|<img", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL))
    assert page.count("</script>") == 2
    assert any("&lt;img src=x" in piece for piece in data_of(page)["pieces"])
    assert not any("<img" in piece for piece in data_of(page)["pieces"])


@pytest.mark.parametrize("name", ["kafka_18227", "kafka_10284", "kafka_6880", "kafka_16147"])
def test_a_counterexample_of_any_machine_is_the_first_way_of_its_page(name: str) -> None:
    counterexample = load(FOLDER / f"{name}.json")
    specified = replay(counterexample, Level.SPEC)
    way = Way("the violation", specified.trace, specified.cycle)
    data = data_of(walk_through(counterexample.buggy_machine(), [way], bug=counterexample.bug, reproduce="", states=1))
    (path,) = data["paths"]
    assert len(path["choices"]) == len(specified.trace.steps)
    at = data["initial"][path["initial"]]
    for number in path["choices"]:
        at = data["states"][at]["choices"][number]["target"]
    names = [data["pieces"][number] for number in data["states"][at]["broken"]]
    assert specified.failure is not None
    assert any(f"{specified.failure.name} is violated" in one for one in names)


def test_both_commands_write_the_page_and_say_how_to_write_it_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    explored, replayed = tmp_path / "explored.html", tmp_path / "replayed.html"
    assert (
        run(["explore", "unregistering", "--bug", "stays_in_sync", "--page", str(explored), "--page-states", "30"]) == 1
    )
    assert run(["replay", str(FOLDER / "kafka_6880.json"), "--on", "spec", "--page", str(replayed)]) == 1
    told = capsys.readouterr().out
    assert f"page written to {explored}: open it in a browser" in told
    assert f"tidegauge explore unregistering --bug stays_in_sync --stop first --page {explored}" in explored.read_text()
    assert f"--page {replayed}" in replayed.read_text()
    assert data_of(explored.read_text())["paths"][0]["name"].endswith(" is violated")


def test_a_page_that_cannot_be_written_is_refused_before_the_search(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for words in (["explore", "replication"], ["replay", str(FOLDER / "kafka_6880.json")]):
        assert run([*words, "--page", str(tmp_path)]) == 2
        assert "is a folder: name a file" in capsys.readouterr().err
    assert run(["explore", "replication", "--page-states", "0"]) == 2
    assert "--page-states 0 leaves nothing to walk through" in capsys.readouterr().err
    for words in (["--page", str(tmp_path / "walk.html")], []):
        assert run(["explore", "replication", *words, "--page-states", "10001"]) == 2
        assert "--page-states 10001: no browser shows so long a page: give at most 10000" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_page_begins_with_its_title_and_a_link_to_a_way_with_its_last_step(tmp_path: Path) -> None:
    file = tmp_path / "walk.html"
    assert run(["replay", str(FOLDER / "kafka_6880.json"), "--on", "spec", "--page", str(file)]) == 1
    assert data_of(file.read_text(encoding="utf-8"))["ending"] == "Nothing can happen any more."
    told = "document.body.dataset.told = `${bands.children.length} steps, ${scrollY ? 'scrolled' : 'at the top'}`"
    page = file.read_text(encoding="utf-8")
    file.write_text(page.replace("</body>", f"<script>onload = () => {{ {told}; }}</script></body>"), encoding="utf-8")

    def opened(address: str) -> str:
        words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
        shown = subprocess.run(
            [*words, f"--user-data-dir={tmp_path / 'profile'}", address], capture_output=True, text=True, check=True
        )
        found = re.search(r'data-told="(\d+) steps, ([a-z ]+)"', shown.stdout)
        assert found is not None
        assert int(found[1]) > 5
        return found[2]

    (way,) = data_of(page)["paths"][:1]
    link = ".".join(map(str, (way["initial"], *way["choices"])))
    assert opened(file.as_uri()) == "at the top"
    assert opened(f"{file.as_uri()}#{link}") == "scrolled"
