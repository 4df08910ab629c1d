"""Traces as JSON lines read back as they were written, and bad lines are named."""

from __future__ import annotations

import json
from typing import Any, Optional

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.model_tests.spec.toys import Award, Badges, Calm, Ceremony, DieHard, Fill, Mood
from tidegauge.spec.kernel.codec import Codec, TraceFormatError, constants, encode, fits, read_trace, trace_lines
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.simulation import walk
from tidegauge.spec.kernel.traces import replay
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip320.variants import Kip320FirstTry

BADGES = st.builds(
    Badges,
    held=st.frozensets(st.sampled_from(["gold", "silver", "tin", "brass"])),
    mood=st.sampled_from(Mood),
    lead=st.none() | st.integers(),
)


@given(BADGES)
def test_a_state_reads_back_as_it_was_written(state: Badges) -> None:
    assert Codec(Ceremony()).decode(json.loads(json.dumps(encode(state)))) == state


@given(st.integers(0, 10_000))
def test_a_trace_reads_back_as_it_was_written(seed: int) -> None:
    for machine in (Kip320(max_leader_epoch=3), Kip320FirstTry()):
        trace = walk(machine, seed, length=20).trace
        lines = list(trace_lines(machine, trace))
        assert read_trace(machine, lines) == trace
        assert len(lines) == len(trace) + 1
        assert not any("\n" in line for line in lines)


def test_the_header_names_the_machine_its_constants_and_what_fell() -> None:
    (fell,) = explore(DieHard()).violations
    header = json.loads(next(trace_lines(DieHard(), fell.trace, fell)))
    assert header == {
        "machine": "DieHard",
        "constants": {"capacities": [3, 5]},
        "violates": "NotFour",
        "values": {"litres": [3, 4]},
    }


def test_each_step_tells_its_action_and_what_changed() -> None:
    trace = replay(Ceremony(), (Award("tin"), Calm())).trace
    _, first, second, third = map(json.loads, trace_lines(Ceremony(), trace))
    assert first == {"state": {"@": "Badges", "held": {"set": []}, "mood": {"enum": "Mood.CALM"}, "lead": None}}
    assert second["action"] == {"@": "Award", "badge": "tin"}
    assert second["changed"] == ["held: {} → {tin}", "mood: CALM → BUSY", "lead: None → 0"]
    assert third["action"] == {"@": "Calm", "mood": {"enum": "Mood.CALM"}}
    assert third["state"]["held"] == {"set": ["tin"]}


def test_sets_are_written_in_order() -> None:
    assert encode(frozenset({3, 1, 2})) == {"set": [1, 2, 3]}
    assert encode(frozenset({Award("tin"), Award("gold")}))["set"][0]["badge"] == "gold"


def test_constants_are_the_fields_of_the_machine() -> None:
    assert constants(Kip320(log_size=3)) == {"replicas": 3, "log_size": 3, "max_records": 2, "max_leader_epoch": 1}


@pytest.mark.parametrize("value", [1.5, b"x", [1], {"a": 1}, object()])
def test_what_a_state_may_not_hold_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="can't be written to a trace"):
        encode(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"@": "Popen", "args": ["true"]}, "'Popen' is no class of Ceremony; it has Award, Badges, Calm"),
        ({"@": "Award", "badge": 7}, "Award.badge can't be 7"),
        ({"@": "Badges", "held": {"set": [1]}, "mood": {"enum": "Mood.CALM"}, "lead": None}, "Badges.held can't be"),
        ({"@": "Badges", "held": [], "mood": {"enum": "Mood.CALM"}, "lead": None}, "Badges.held can't be"),
        ({"@": "Badges", "held": {"set": []}, "mood": "CALM", "lead": None}, "Badges.mood can't be 'CALM'"),
        (
            {"@": "Badges", "held": {"set": []}, "mood": {"enum": "Mood.CALM"}, "lead": True},
            "Badges.lead can't be True",
        ),
        ({"@": "Badges", "held": {"set": []}}, "Badges has the fields .* but the line gives"),
        ({"@": ["Badges"]}, "is no class of Ceremony"),
        ({"@": "Mood"}, "'Mood' is no class"),
        ({"enum": "Mood.SAD"}, "'Mood.SAD' names no member"),
        ({"enum": "Badges.held"}, "'Badges' is no class of Ceremony; it has Mood"),
        ({"set": 3}, "neither a value nor an object"),
        ({"badge": "tin"}, "neither a value nor an object"),
        (1.5, "neither a value nor an object"),
    ],
)
def test_malformed_values_are_named(data: Any, message: str) -> None:
    with pytest.raises(TraceFormatError, match=message):
        Codec(Ceremony()).decode(data)


def test_a_state_is_not_an_action() -> None:
    state = next(iter(Ceremony().initial()))
    with pytest.raises(TraceFormatError, match="is not an action of Ceremony"):
        Codec(Ceremony()).action(encode(state))
    assert Codec(Ceremony()).action(encode(Award("tin"))) == Award("tin")


STATE = json.dumps(encode(next(iter(DieHard().initial()))))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no initial state"),
        (['{"machine": "DieHard"}', '{"state": '], "line 2: "),
        (['{"machine": "Kip320"}'], "line 1: the trace is of Kip320, not of DieHard"),
        (["[1, 2]"], "line 1: .* is not an object"),
        (['{"action": {"@": "Fill", "jug": 0}}'], "line 1: the first state comes alone"),
        ([f'{{"state": {STATE}}}', f'{{"state": {STATE}}}'], "line 2: .* every later one with its action"),
        ([f'{{"action": {{"@": "Fill", "jug": 0}}, "state": {STATE}}}'], "line 1: the first state comes alone"),
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
        (Mood.CALM, Mood, True),
        ("x", Any, True),
    ],
)
def test_values_are_held_against_annotations(value: Any, hint: Any, expected: bool) -> None:
    assert fits(value, hint) is expected
