"""The page of a simulated run: what a partition did, as the specification followed it, and what it might have done."""

from __future__ import annotations

import html
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tidegauge.__main__ import run
from tidegauge.model_tests.harness.report.run_page import NoSuchStretchError, Stretch, page_of, stretch_of
from tidegauge.model_tests.harness.simulation.options import draw
from tidegauge.model_tests.harness.simulation.simulation import Simulated, simulate
from tidegauge.model_tests.harness.validation import observed
from tidegauge.model_tests.harness.validation.validation import Validated
from tidegauge.spec.kernel.traces import first_violated
from tidegauge.spec.replication.actions import ReplicationAction

SEED = 1
BUG = "minimal_isr"
"""Seed 1 leaves the specification with it."""


@cache
def followed(bug: str | None = None) -> Simulated:
    return simulate(draw(SEED, bug=bug), kept=True)


def wrong() -> Validated:
    return next(one for one in followed(BUG).validated if not one.holds)


def data_of(page: str) -> dict[str, Any]:
    """What the script reads."""
    found = re.search(r'<script type="application/json" id="state-space">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def actions_along(data: dict[str, Any]) -> list[str]:
    """The names of the actions of the first trace, by what a click on each choice leads to."""
    (path,) = data["paths"]
    at, names = data["initial"][path["initial"]], []
    for number in path["choices"]:
        choice = data["states"][at]["choices"][number]
        names.append(data["pieces"][choice["action"]])
        at = choice["target"]
    return names


def page(stretch: Stretch, bug: str | None = None) -> str:
    return page_of(followed(bug), stretch, "the command")


def test_a_kept_behaviour_is_one_of_the_specification_from_the_creation_of_the_partition_on() -> None:
    for one in followed().validated:
        assert one.behaviour is not None
        machine, trace = one.behaviour.machine, one.behaviour.trace
        assert len(trace.steps) == sum(one.actions.values())
        for before, action, after in trace.transitions():
            assert isinstance(action, ReplicationAction)
            assert observed.step(machine, before, action) == after
            assert first_violated(machine, before, action, after) is None


def test_states_are_kept_only_if_that_is_asked() -> None:
    assert [one.behaviour for one in simulate(draw(SEED)).validated if one.behaviour is not None] == []


def test_a_behaviour_ends_with_what_the_first_wrong_event_was_taken_for() -> None:
    one = wrong()
    assert one.mismatch is not None
    assert one.behaviour is not None
    taken = one.mismatch.actions
    assert taken
    trace = one.behaviour.trace
    assert trace.actions[-len(taken) :] == taken
    assert trace.states[-len(taken) - 1] == one.mismatch.state
    assert len(trace.steps) == sum(one.actions.values()) + len(taken)


def test_the_page_of_a_passing_seed_leads_along_what_the_cluster_did() -> None:
    data = data_of(page(Stretch("orders-0", 1, 40, 1)))
    behaviour = followed().validated[0].behaviour
    assert behaviour is not None
    assert actions_along(data) == [action.name for action in behaviour.trace.actions[:40]]
    assert data["paths"][0]["name"] == "what the cluster did, step 1 and on"
    assert len(data["initial"]) == 1, "the machine's own initial state is not one of the run"


def test_each_state_offers_what_the_specification_allows_beside_what_the_cluster_did() -> None:
    data = data_of(page(Stretch("orders-0", 1, 10, 1)))
    behaviour = followed().validated[0].behaviour
    assert behaviour is not None
    offered = data["states"][data["initial"][0]]["choices"]
    names = {data["pieces"][choice["action"]] for choice in offered}
    assert {action.name for action in behaviour.machine.actions(behaviour.trace.initial)} <= names
    assert data["pieces"][offered[0]["action"]] == behaviour.trace.actions[0].name, "what the cluster did comes first"


def test_with_more_states_there_is_more_to_walk_through() -> None:
    few, more = (data_of(page(Stretch("orders-0", 1, 3, states))) for states in (1, 12))
    assert len(few["states"]) < len(more["states"]) == 12


def test_a_page_may_begin_anywhere_in_a_run() -> None:
    first = data_of(page(Stretch("orders-1", 1, 30, 1)))
    later = data_of(page(Stretch("orders-1", 21, 10, 1)))
    assert actions_along(first)[20:] == actions_along(later)


def test_the_page_of_a_failing_seed_ends_with_what_is_wrong() -> None:
    one = wrong()
    assert one.mismatch is not None
    assert one.behaviour is not None
    text = page(Stretch(None, None, 5, 1), BUG)
    data = data_of(text)
    assert actions_along(data) == [action.name for action in one.behaviour.trace.actions[-5:]]
    assert data["paths"][0]["name"].endswith(f", until {one.mismatch.reason}")
    assert f"<h1>Seed 1, {one.topic}-{one.partition}</h1>" in text
    way, _ = stretch_of(one, one.behaviour, Stretch(None, 1, 5, 1))
    assert "until" not in way.name, "the end is not on a page of the beginning"


def test_a_partition_or_a_step_that_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(NoSuchStretchError, match=r"no partition orders-7: choose one of orders-0, orders-1"):
        page(Stretch("orders-7", None, 5, 1))
    with pytest.raises(NoSuchStretchError, match=r"step 100000 is behind the end: orders-0 has \d+ steps"):
        page(Stretch("orders-0", 100_000, 5, 1))


def test_the_command_writes_the_page_and_says_how_to_write_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run page.html"
    words = ["simulate", "--seed", str(SEED), "--page", str(file), "--page-steps", "5", "--page-states", "1"]
    assert run(words) == 0
    assert f"page written to {file}: open it in a browser" in capsys.readouterr().out.replace("\n", "")
    again = f"tidegauge simulate --seed 1 --page '{file}' --page-steps 5 --page-states 1"
    assert again in html.unescape(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--page-from", "3"), "--page-from 3: name the page, by --page FILE"),
        (("--page-steps", "5"), "--page-steps 5: name the page, by --page FILE"),
        (("--page-states", "5"), "--page-states 5: name the page, by --page FILE"),
        (("--page-partition", "orders-0"), "--page-partition orders-0: name the page, by --page FILE"),
        (("--seeds", "2", "--page", "x.html"), "--page x.html: it is of one seed: leave --seeds and --breed out"),
        (
            ("--groups", "--page", "x.html", "--page-partition", "orders-0"),
            "--page-partition orders-0: with --groups the page is of the group, and of no partition",
        ),
        (("--page", "x.html", "--page-steps", "0"), "--page-steps 0 leaves nothing to walk through"),
        (("--page", "x.html", "--page-states", "-1"), "--page-states -1 leaves nothing to walk through"),
        (("--page", "x.html", "--page-steps", "10001"), "--page-steps 10001: no browser shows so long a page"),
        (("--page", "x.html", "--page-states", "2001"), "--page-states 2001: no browser shows so long a page"),
        (("--page", "x.html", "--page-from", "0"), "--page-from 0: the first step is 1"),
        (("--page", "nowhere/x.html"), "there is no folder nowhere: make it first"),
        (("--page", "x.html", "--page-partition", "orders-9"), "no partition orders-9: choose one of orders-0"),
    ],
)
def test_what_makes_no_page_is_refused(
    words: tuple[str, ...],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["simulate", *words]) == 2
    assert error in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
