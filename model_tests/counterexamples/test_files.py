"""Counterexample files are read back as they were written, and bad ones are refused with what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from tidegauge.model_tests.harness.counterexamples.files import (
    FOLDER,
    Counterexample,
    CounterexampleError,
    Expected,
    Failure,
    Found,
    load,
    save,
)
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.partition import Fetch
from tidegauge.spec.idempotence.producer import Send
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.codec import encode
from tidegauge.spec.kernel.machine import constants_of
from tidegauge.spec.replication.actions import Append, ReceiveFetchResponse, SendFetch
from tidegauge.spec.replication.control import ReceiveAlterPartition
from tidegauge.spec.replication.extensions.reassignment import Reassignment, StartReassignment
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks, AlterPartitionRequest, FetchRequest, FetchResponse

SAMPLE = Counterexample(
    machine=Replication(brokers=2, initial_isr=(0,), acks=(Acks.LEADER,), bounds=Bounds(Crash=3)),
    bug=None,
    actions=(Append(0, Acks.LEADER), SendFetch(1)),
    expected=Expected(Failure.DIFFERENCE, "replicas[0].log"),
    found=Found("cluster lockstep", 7),
)


OF_PRODUCERS = Counterexample(
    machine=Idempotence(brokers=2, producers=1, batch_sizes=(1, 2), bounds=Bounds(Crash=3)),
    bug="kafka_6683",
    actions=(Send(0, 2), Fetch(1)),
    expected=Expected(Failure.INVARIANT, "ProducerStateMatchesLog"),
    found=Found("cluster lockstep", 7),
)
SIZES = '"batch_sizes": [1, 2]'
"""As the file has it."""
OF_A_MOVE = Counterexample(
    machine=Replication(extensions=(Reassignment((1, 2), ((0, 1), (2,))),)),
    bug=None,
    actions=(StartReassignment((0, 1)),),
    expected=Expected(Failure.DIFFERENCE, "controller.adding"),
    found=Found("cluster lockstep"),
)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_file_is_written_as_it_was_read(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    save(load(path), copy)
    assert load(copy) == load(path)
    unlike = [
        (one, other)
        for one, other in zip(path.read_text().splitlines(), copy.read_text().splitlines(), strict=True)
        if one != other
    ]
    assert all('"replay"' in one for one, _ in unlike), "but for the path in the command, byte for byte"


def test_every_constant_survives(tmp_path: Path) -> None:
    line = save(SAMPLE, tmp_path / "sample.json")
    assert load(tmp_path / "sample.json") == SAMPLE
    assert line == f"tidegauge replay {tmp_path / 'sample.json'}"


@pytest.mark.parametrize("counterexample", [OF_PRODUCERS, OF_A_MOVE], ids=["idempotence", "reassignment"])
def test_so_do_those_of_other_machines(counterexample: Counterexample, tmp_path: Path) -> None:
    save(counterexample, tmp_path / "other.json")
    assert load(tmp_path / "other.json") == counterexample


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"kafka_6683"', '"kafka_1211"', "'kafka_1211', but the bugs of idempotence are: kafka_3197"),
        ('"broker": 1', '"broker": 2', "action 2: Fetch names broker 2, but the machine has the brokers 0 to 1"),
        ('"producer": 0', '"producer": 1', "action 1: Send names producer 1, .* the producers 0 to 0"),
        (SIZES, '"batch_sizes": [1, "2"]', "Idempotence.batch_sizes: '2' is no int"),
        (SIZES, '"batch_sizes": []', "fit no initial state"),
        (
            SIZES,
            SIZES + ', "producers": 1000000',
            "producers=1000000: a machine has .* at most 16 producers",
        ),
        (SIZES, SIZES + ', "idempotent": 1', "Idempotence.idempotent: 1 is no bool"),
        ('"Crash": 3', '"Crash": -3', "Crash=-3 is no whole number"),
    ],
)
def test_a_producer_that_is_not_there_is_refused(old: str, new: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    save(OF_PRODUCERS, path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(CounterexampleError, match=told):
        load(path)


def test_one_action_is_one_line(tmp_path: Path) -> None:
    save(SAMPLE, tmp_path / "sample.json")
    lines = (tmp_path / "sample.json").read_text().splitlines()
    assert sum('"Append": {' in line for line in lines) == sum('"SendFetch": {' in line for line in lines) == 1


OF_A_GOAL = attrs.evolve(
    SAMPLE, expected=Expected(Failure.GOAL, "a proposal is settled"), cycle=(SendFetch(1),), bug="kafka_1211"
)


def test_a_lasso_has_a_list_for_its_cycle_and_nothing_else_has(tmp_path: Path) -> None:
    path = tmp_path / "lasso.json"
    save(OF_A_GOAL, path)
    assert load(path) == OF_A_GOAL
    assert json.loads(path.read_text())["cycle"] == [{"SendFetch": {"broker": 1}}]
    save(attrs.evolve(OF_A_GOAL, cycle=()), path)
    assert json.loads(path.read_text())["cycle"] == []
    save(SAMPLE, path)
    assert "cycle" not in json.loads(path.read_text())


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("a proposal is settled", "all is well", "has no goal 'all is well': choose one of: a live candidate leads; "),
        ('"kind": "goal"', '"kind": "invariant"', "unknown ['cycle']"),
        ('"cycle": [', '"circle": [', "missing ['cycle'], unknown ['circle']"),
        ('{"SendFetch": {"broker": 1}}\n  ]\n}', '{"SendFetch": {"broker": 9}}\n  ]\n}', "names broker 9"),
    ],
)
def test_a_lasso_that_says_too_little_or_too_much_is_refused(old: str, new: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "lasso.json"
    save(OF_A_GOAL, path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(CounterexampleError, match=re.escape(told)):
        load(path)


def test_the_buggy_machine_has_the_same_constants() -> None:
    buggy = attrs.evolve(SAMPLE, bug="minimal_isr").buggy_machine()
    assert type(buggy) is not Replication
    assert constants_of(buggy) == constants_of(SAMPLE.machine)


def change(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(data: dict[str, Any]) -> None:
        data[key] = value

    return edit


def constant(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(data: dict[str, Any]) -> None:
        data["machine"]["constants"][name] = value

    return edit


def lagging(follower: int) -> dict[str, Any]:
    return {"ShrinkIsr": {"broker": 0, "lagging": [follower]}}


def received(follower: int = 1, leader: int = 0) -> dict[str, Any]:
    """A response to a fetch; the brokers are in the request within it."""
    response = FetchResponse(FetchRequest(follower, leader, 0, 0, -1, 0))
    data: dict[str, Any] = encode(ReceiveFetchResponse(response))
    return data


def proposed(*isr: list[int]) -> dict[str, Any]:
    """A proposal of these members, each with its broker epoch."""
    data: dict[str, Any] = encode(ReceiveAlterPartition(AlterPartitionRequest(0, 0, 0, 0, ())))
    data["ReceiveAlterPartition"]["request"]["isr"] = list(isr)
    return data


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (change("format", "tidegauge counterexample 9"), '"format" must be'),
        (change("bug", "kafka_1"), "bugs of replication are: kafka_1211"),
        (change("bug", ["x"]), r"\"bug\" is \['x'\], but the bugs of replication are"),
        (change("replay", 7), '"replay" must be the command'),
        (change("colour", "blue"), r"unknown \['colour'\]"),
        (change("expected", {"kind": "feeling"}), "'invariant' or 'difference'"),
        (change("expected", {"kind": ["x"], "name": "x"}), "'invariant' or 'difference'"),
        (change("expected", {"kind": "invariant", "name": 7}), '"expected" must give'),
        (change("expected", {"kind": "invariant", "name": "Nope"}), "no invariant 'Nope': choose one of .*Consis"),
        (change("expected", {"kind": "difference", "name": ""}), "give the field that differs"),
        (change("found", []), '"found" must give'),
        (change("found", {"seed": 7}), '"found" must give "by", and "seed" if there is one'),
        (change("found", {"by": "explorer", "seed": "x"}), "seed 'x': give a whole number"),
        (change("actions", 7), '"actions" must be a list'),
        (change("actions", [{"Append": {"acks": "ALL"}}]), "action 1: Append lacks broker"),
        (
            change("actions", [{"Append": {"broker": 0, "ack": 1}}]),
            "action 1: Append has no field ack; it has",
        ),
        (change("actions", [{"Dance": {}}]), "action 1: Replication has no action 'Dance'; it has Append"),
        (change("actions", [{"SendFetch": {"broker": 99}}]), "action 1: SendFetch names broker 99, .* 0 to 1"),
        (change("actions", [{"SendFetch": {"broker": -1}}]), "action 1: SendFetch names broker -1"),
        (change("actions", [lagging(1), lagging(2)]), "action 2: ShrinkIsr names broker 2"),
        (change("actions", [received(follower=9)]), "action 1: ReceiveFetchResponse names broker 9"),
        (change("actions", [received(leader=-1)]), "action 1: ReceiveFetchResponse names broker -1"),
        (change("actions", [proposed([0, -1], [7, 0])]), "action 1: ReceiveAlterPartition names broker 7"),
        (
            change("machine", {"name": "Paxos", "constants": {}}),
            "no machine 'Paxos': choose one of replication",
        ),
        (constant("brokers", -1), "constant brokers has a number below 0: -1"),
        (constant("acks", ["some"]), "Replication.acks: 'some' is no member of Acks; it has ALL"),
        (constant("bounds", {"Crash": "many"}), "the bound Crash='many' is no whole number"),
        (constant("bounds", {"Crash": -1}), "the bound Crash=-1 is no whole number of at least 0"),
        (constant("bounds", {"Crsh": 1}), "Replication has no perturbation Crsh; it has DuplicateFetch"),
        (constant("extensions", [{"Retention": {}}]), "ReplicationExtension has no field Retention"),
        (change("machine", {"name": "retention", "constants": {"extensions": []}}), "is registered as replication"),
        (constant("brokers", 1_000_000), "brokers=1000000: a machine has at least 1 and at most 16 brokers"),
        (constant("initial_isr", [0, 0]), r"initial_isr=\(0, 0\) must name brokers from 0 to 1, each once"),
        (constant("initial_isr", [0, 2]), r"initial_isr=\(0, 2\) must name brokers from 0 to 1"),
        (constant("initial_leader", 1), r"initial_leader=1 is not in the initial ISR \(0,\)"),
        (constant("initial_isr", [0, "1"]), "Replication.initial_isr: '1' is no int"),
        (constant("bounds", []), r"Replication.bounds: \[\] gives no whole numbers"),
        (constant("rain", 1), "Replication has no field rain"),
    ],
)
def test_what_is_wrong_is_told_with_the_path(edit: Callable[[dict[str, Any]], None], told: str, tmp_path: Path) -> None:
    path = tmp_path / "sample.json"
    save(SAMPLE, path)
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    with pytest.raises(CounterexampleError, match=told) as refused:
        load(path)
    assert str(refused.value).startswith(str(path))


def test_what_is_no_json_and_what_is_not_there_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(CounterexampleError, match="cannot be read"):
        load(tmp_path / "none.json")
    (tmp_path / "torn.json").write_text('{"format": ')
    with pytest.raises(CounterexampleError, match="is not JSON: line 1"):
        load(tmp_path / "torn.json")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"found": {', '"found": {}, "found": {', "an object has the field 'found' twice"),
        ('"broker": 1}', '"broker": 0, "broker": 1}', "an object has the field 'broker' twice"),
        (
            '"found": {',
            json.dumps(dict.fromkeys(map(str, range(100_000))))[1:-1] + ', "found": {',
            "has the wrong fields",
        ),
        ('"seed": 7', f'"seed": {"7" * 5000}', "a number of 5000 digits"),
        ('"broker": 1}', '"broker": ' + "[" * 100_000 + "]" * 100_000 + "}", "is nested too deeply"),
        ('"broker": 1}', '"broker": ' + "[" * 900 + "]" * 900 + "}", "is nested too deeply|SendFetch.broker: "),
    ],
    ids=["a field twice", "a field of an action twice", "many fields", "a long number", "a deep nest", "a nest"],
)
def test_json_that_cannot_be_taken_at_its_word_is_refused(old: str, new: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "sample.json"
    save(SAMPLE, path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(CounterexampleError, match=told) as refused:
        load(path)
    assert str(refused.value).startswith(str(path))


def test_constants_at_their_default_are_left_out(tmp_path: Path) -> None:
    """So a constant that a machine gets later breaks no file."""
    save(SAMPLE, tmp_path / "sample.json")
    data = json.loads((tmp_path / "sample.json").read_text())
    assert data["machine"]["name"] == "replication"
    assert data["machine"]["constants"].keys() == {"brokers", "initial_isr", "acks", "bounds"}
    assert data["machine"]["constants"]["bounds"] == {"Crash": 3}


def test_so_are_a_bug_and_a_seed_that_there_are_not(tmp_path: Path) -> None:
    path = tmp_path / "sample.json"
    save(OF_A_MOVE, path)
    data = json.loads(path.read_text())
    assert "bug" not in data
    assert data["found"] == {"by": "cluster lockstep"}
    path.write_text(json.dumps({**data, "bug": None, "found": {**data["found"], "seed": None}}))
    assert load(path) == OF_A_MOVE, "who writes null means the same"
