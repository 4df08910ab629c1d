"""`tidegauge list`: whatever the registry has, by the names that the other commands take."""

from __future__ import annotations

import json

import pytest

from tidegauge.__main__ import run
from tidegauge.model_tests.harness.registry import registered
from tidegauge.model_tests.spec.kernel.toys import DieHard
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.meaning import meaning
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.registry import REGISTRY


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert run(words) == status
    told = capsys.readouterr()
    return told.err if status else told.out


def test_every_machine_is_listed_with_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "list").splitlines()
    assert [one.name for one in REGISTRY if not any(line.startswith(f"{one.name} ") for line in lines)] == []
    machines = json.loads(said(capsys, "list", "--json"))["machines"]
    assert [one["name"] for one in machines if not one["what"].endswith(".")] == []
    assert len({one["what"] for one in machines}) == len(machines), "each says what it is about, and no other does"
    models = [model["name"] for one in machines for model in one["models"]]
    assert models == list(REGISTRY.models)
    assert {bug["name"] for one in machines for bug in one["bugs"]} == set(REGISTRY.bugs)


@pytest.mark.parametrize("name", ["replication", "kip320", "transactions", "workers"])
def test_a_machine_is_listed_with_all_that_can_be_named_of_it(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    one = REGISTRY.registration(name)
    told = said(capsys, "list", name)
    machine: Machine[object] = one.machine
    names = [
        *(model.name for model in one.models),
        *REGISTRY.bugs_of(machine),
        *machine.invariants,
        *machine.step_invariants,
        *machine.converges,
        *machine.leads_to,
    ]
    assert [each for each in names if each not in told] == []


def test_a_model_stands_for_its_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "list", "crash-and-shrink") == said(capsys, "list", "replication")


def test_a_machine_of_a_test_is_listed_once_it_is_registered(capsys: pytest.CaptureFixture[str]) -> None:
    with registered(
        "jugs", DieHard(), models=(Model("two-jugs", DieHard(), "four litres with jugs of three and five"),)
    ):
        told = said(capsys, "list", "jugs")
    assert "two-jugs  four litres with jugs of three and five" in told
    assert "jugs" not in said(capsys, "list")


def test_an_unknown_name_is_refused_with_those_that_are_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("list", "crash-and-shrnk"), ("explore", "crash-and-shrnk")):
        error = said(capsys, *words, status=2)
        assert error.startswith(
            "tidegauge: there is no specification 'crash-and-shrnk': choose one of crash-and-shrink"
        )
        assert "tidegauge list" in error


@pytest.mark.parametrize("name", [one.name for one in REGISTRY])
def test_every_property_says_in_words_what_it_says(name: str) -> None:
    """Reports, pages and lists tell it to who sees it violated."""
    machine: Machine[object] = REGISTRY.machine(name)
    properties = {**machine.invariants, **machine.step_invariants}
    assert [each for each, holds in properties.items() if not meaning(holds)] == []
