"""Traces as JSON lines read back as they were written, and bad lines are named."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Optional

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.model_tests.spec.kernel.toys import Award, Badges, Ceremony, DieHard, Fill, Mood, Relax, Table
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.codec import Codec, TraceFormatError, constants, encode, fits, read_trace, trace_lines
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled
from tidegauge.spec.kernel.simulation import walk
from tidegauge.spec.kernel.traces import replay
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip320.variants import Kip320FirstTry
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks, State

BADGES = st.builds(
    Badges,
    held=st.frozensets(st.sampled_from(["gold", "silver", "tin", "brass"])),
    mood=st.sampled_from(Mood),
    lead=st.none() | st.integers(),
)


@given(BADGES)
def test_a_state_reads_back_as_it_was_written(state: Badges) -> None:
    assert Codec(Ceremony()).state(json.loads(json.dumps(encode(state, Badges)))) == state


@given(st.integers(0, 10_000))
def test_a_trace_reads_back_as_it_was_written(seed: int) -> None:
    for machine in (Kip320(max_leader_epoch=3), Kip320FirstTry()):
        trace = walk(machine, seed, length=20).trace
        lines = list(trace_lines(machine, trace))
        assert read_trace(machine, lines) == trace
        assert len(lines) == len(trace) + 1
        assert not any("\n" in line for line in lines)


def test_the_header_names_the_machine_its_constants_and_the_violation() -> None:
    (violation,) = explore(DieHard()).violations
    header = json.loads(next(trace_lines(DieHard(), violation.trace, violation)))
    assert header == {
        "machine": "DieHard",
        "constants": {},
        "violates": "NotFour",
        "values": {"false because": "jug.litres == 4", "jug.litres": 4, "litres": [3, 4]},
    }


def test_each_step_tells_its_action_and_what_changed() -> None:
    trace = replay(Ceremony(), (Award("tin"), Relax())).trace
    _, first, second, third = map(json.loads, trace_lines(Ceremony(), trace))
    assert first == {"state": {"held": [], "mood": "FREE", "lead": None}}
    assert second["action"] == {"Award": {"badge": "tin"}}
    assert second["changed"] == ["held: {} → {tin}", "mood: FREE → BUSY", "lead: None → 0"]
    assert third["action"] == {"Relax": {}}
    assert third["state"]["held"] == ["tin"]


def test_sets_are_written_in_order() -> None:
    assert encode(frozenset({3, 1, 2})) == {"set": [1, 2, 3]}
    assert encode(frozenset({Award("tin"), Award("gold")}))["set"][0] == {"Award": {"badge": "gold"}}


def test_constants_are_the_fields_of_the_machine_that_are_not_at_their_defaults() -> None:
    assert constants(Kip320(log_size=3)) == {"log_size": 3}
    machine = Replication(acks=(Acks.LEADER,), bounds=Bounds(Crash=2), extensions=(Reassignment((0,)),))
    assert constants(machine) == {
        "acks": ["LEADER"],
        "bounds": {"Crash": 2},
        "extensions": [{"Reassignment": {"initial_replicas": [0]}}],
    }


def test_parts_are_read_in_any_order_and_those_at_their_defaults_are_none() -> None:
    machine = Replication(extensions=everything())
    state = next(iter(machine.initial()))
    data = encode(state, State)
    parts = data["replicas"][0]["parts"]
    assert [list(part) for part in parts] == [["KnownSettings"], ["ReplicaList"]]
    data["replicas"][0]["parts"] = [{"LogStart": {"offset": 0}}, *reversed(parts)]
    assert Codec(machine).state(data) == state
    data["replicas"][0]["parts"] = [{"LogStrat": {}}]
    with pytest.raises(TraceFormatError, match=r"State.replicas: Replica.parts: Replication has no part 'LogStrat'"):
        Codec(machine).state(data)


@pytest.mark.parametrize("value", [1.5, b"x", [1], {"a": 1}, object()])
def test_what_a_state_may_not_hold_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="can't be written to a trace"):
        encode(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"Popen": {"args": ["true"]}}, "Ceremony has no action 'Popen'; it has Award, Relax"),
        ({"Award": {"badge": 7}}, "Award.badge: 7 is no str"),
        ({"Award": {"badge": "tin", "bagde": "tin"}}, "Award has no field bagde; it has badge$"),
        ({"Award": {}}, "Award lacks badge"),
        ({"Award": ["tin"]}, r"\['tin'\] is not an object with the fields of Award"),
        ({"Relax": {"mood": "SAD"}}, "Relax.mood: 'SAD' is no member of Mood; it has FREE, BUSY"),
        ({"Relax": {"mood": 1}}, "Relax.mood: 1 is no member of Mood"),
        ({"Mood": "FREE"}, "Ceremony has no action 'Mood'"),
        ({"Badges": {}}, "Ceremony has no action 'Badges'"),
        ("Award", "'Award' is not an object with the fields of Action"),
        ({"Award": {"badge": "tin"}, "Relax": {}}, "Action has no field Award, Relax"),
    ],
)
def test_malformed_actions_are_named(data: Any, message: str) -> None:
    with pytest.raises(TraceFormatError, match=message):
        Codec(Ceremony()).action(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"held": [1], "mood": "FREE", "lead": None}, "Badges.held: 1 is no str"),
        ({"held": {}, "mood": "FREE", "lead": None}, "Badges.held: "),
        ({"held": [], "mood": "SAD", "lead": None}, "Badges.mood: 'SAD' is no member"),
        ({"held": [], "mood": "FREE", "lead": True}, "Badges.lead: True is no int"),
        ({"held": [], "mood": "FREE", "lead": 1.5}, "Badges.lead: 1.5 is no int"),
        ({"held": []}, "Badges lacks mood, lead"),
    ],
)
def test_malformed_states_are_named(data: Any, message: str) -> None:
    with pytest.raises(TraceFormatError, match=message):
        Codec(Ceremony()).state(data)


def test_a_state_is_not_an_action() -> None:
    state = next(iter(Ceremony().initial()))
    with pytest.raises(TraceFormatError, match="Ceremony has no action 'Badges'"):
        Codec(Ceremony()).action(encode(state))
    assert Codec(Ceremony()).action(encode(Award("tin"))) == Award("tin")


STATE = json.dumps(encode(next(iter(DieHard().initial())), Table))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no initial state"),
        (['{"machine": "DieHard"}', '{"state": '], "line 2: "),
        (['{"machine": "Kip320"}'], "line 1: the trace is of Kip320, not of DieHard"),
        (["[1, 2]"], "line 1: .* is not an object"),
        (['{"machine": "Kip320", "machine": "DieHard"}'], "line 1: an object has the field 'machine' twice"),
        ([f'{{"state": {STATE}, "state": {STATE}}}'], "line 1: an object has the field 'state' twice"),
        (['{"state": {"small": 1, "small": 0}}'], "line 1: an object has the field 'small' twice: give each once"),
        (['{"state": %s}' % ("7" * 5_000)], "line 1: Exceeds the limit"),
        (["[" * 100_000], "line 1: "),
        (['{"action": {"Fill": {"jug": 0}}}'], "line 1: the first state comes alone"),
        ([f'{{"state": {STATE}}}', f'{{"state": {STATE}}}'], "line 2: .* every later one with its action"),
        ([f'{{"action": {{"Fill": {{"jug": 0}}}}, "state": {STATE}}}'], "line 1: the first state comes alone"),
    ],
)
def test_malformed_lines_are_named(lines: list[str], message: str) -> None:
    with pytest.raises(TraceFormatError, match=message):
        read_trace(DieHard(), lines)


def test_empty_lines_are_skipped() -> None:
    trace = replay(DieHard(), (Fill(0),)).trace
    lines = list(trace_lines(DieHard(), trace))
    assert read_trace(DieHard(), ["", *lines, "  \n"]) == trace


@attrs.frozen
class Note(Action):
    """Speaks of another class called Badges."""

    badges: attrs.make_class("Badges", {"x": attrs.field(type=int)}, frozen=True)  # type: ignore[valid-type]


def test_two_classes_of_one_name_are_refused() -> None:
    @attrs.frozen
    class Confused(Ceremony):
        action_types = (*Ceremony.action_types, Note)

    with pytest.raises(TypeError, match="two classes called Badges"):
        Codec(Confused())


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ((1, 2), tuple[int, ...], True),
        ((1, "a"), tuple[int, ...], False),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        ([1], tuple[int, ...], False),
        (None, int | None, True),
        (None, Optional[int], True),  # noqa: UP045 - the older spelling
        ("a", int | None, False),
        (True, bool, True),
        (True, int, False),
        (Mood.FREE, Mood, True),
        ("x", Any, True),
        (1, Annotated[int, "a broker"], True),
        ("1", Annotated[int, "a broker"], False),
        (frozenset({1, 2}), frozenset[int], True),
        (frozenset({1, "2"}), frozenset[int], False),
        ((1, 2), frozenset[int], False),
    ],
)
def test_values_are_held_against_annotations(value: Any, hint: Any, expected: bool) -> None:
    assert fits(value, hint) is expected


NO_BOUNDS = Bounds()


@attrs.frozen
class Shelf:
    """A state with every shape that an annotation may have."""

    pair: tuple[int, str] = (0, "")
    many: tuple[int, ...] = attrs.field(factory=tuple)
    moods: frozenset[Mood] = frozenset()
    either: int | Mood | Award = 0
    open: Any = None
    bounds: Bounds = NO_BOUNDS


@attrs.frozen
class Shop(Machine[Shelf]):
    action_types: ClassVar[tuple[type[Action], ...]] = (Award, Relax)

    def initial(self) -> Iterable[Shelf]:
        return (Shelf(),)

    def actions(self, state: Shelf) -> Iterable[Action]:
        return ()

    def step(self, state: Shelf, action: Action) -> Shelf:
        raise NotEnabled(action, "the shop is open")


SHELVES = st.builds(
    Shelf,
    pair=st.tuples(st.integers(), st.text()),
    many=st.lists(st.integers()).map(tuple),
    moods=st.frozensets(st.sampled_from(Mood)),
    either=st.integers() | st.sampled_from(Mood) | st.builds(Award, st.text()),
    open=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(Mood) | st.builds(Award, st.text()),
        lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
        max_leaves=8,
    ),
    bounds=st.dictionaries(st.sampled_from(["Crash", "Pause"]), st.integers(0, 3)).map(Bounds),
)


@given(SHELVES)
def test_every_shape_of_a_value_reads_back_as_it_was_written(state: Shelf) -> None:
    assert Codec(Shop()).state(json.loads(json.dumps(encode(state, Shelf)))) == state


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"pair": 3}, r"Shelf\.pair: 3 is not an array: give \[…\]"),
        ({"pair": [1, "a", 2]}, r"Shelf\.pair: \[1, 'a', 2\] has 3 items in place of 2"),
        ({"pair": ["a", "a"]}, r"Shelf\.pair: 'a' is no int"),
        ({"many": [1, True]}, r"Shelf\.many: True is no int"),
        ({"moods": {"FREE": 1}}, r"Shelf\.moods: \{'FREE': 1\} is not an array: give \[…\]"),
        ({"either": "FREE"}, r"Shelf\.either: 'FREE' is none of int, Mood, Award"),
        ({"either": {"Relax": {}}}, r"Shelf\.either: \{'Relax': \{\}\} is none of int, Mood, Award"),
        ({"either": {"Mood": "SAD"}}, r"Shelf\.either: 'SAD' is no member of Mood; it has FREE, BUSY"),
        ({"open": {"Popen": {}}}, r"Shelf\.open: Shop has no class 'Popen'; it has Award, Mood, Relax, Shelf$"),
        ({"open": 1.5}, r"Shelf\.open: 1\.5 is neither a value nor an object under the name of its class"),
        ({"open": {"set": 3}}, r"Shelf\.open: Shop has no class 'set'; it has "),
        ({"bounds": [1]}, r"Shelf\.bounds: \[1\] gives no whole numbers of at least 0 by action: it is no object"),
        ({"bounds": {"Crash": -1}}, r"Shelf\.bounds: .* the bound Crash=-1 is no whole number of at least 0"),
    ],
)
def test_a_value_of_the_wrong_shape_is_named_with_its_field(data: Any, message: str) -> None:
    with pytest.raises(TraceFormatError, match=message):
        Codec(Shop()).state(data)


def test_an_action_of_another_machine_is_none_of_this() -> None:
    @attrs.frozen
    class Quiet(Ceremony):
        """Knows the class of the action through its state only."""

        action_types = ()
        part_types = (Award,)  # type: ignore[assignment]

    with pytest.raises(TraceFormatError, match=r"\{'Award': \{'badge': 'tin'\}\} is not an action of Quiet"):
        Codec(Quiet()).action({"Award": {"badge": "tin"}})


def test_what_is_at_its_default_is_left_out_however_the_default_is_made() -> None:
    assert encode(Shelf(), Shelf) == {}
    assert encode(Shelf(many=(1,)), Shelf) == {"many": [1]}
    assert Codec(Shop()).state({}) == Shelf()


def test_a_machine_that_is_no_attrs_class_has_no_constants() -> None:
    class Counter(Machine[int]):
        def initial(self) -> Iterable[int]:
            return (0,)

        def actions(self, state: int) -> Iterable[Action]:
            return ()

        def step(self, state: int, action: Action) -> int:
            raise NotEnabled(action, "it counts")

    assert constants(Counter()) == {}
