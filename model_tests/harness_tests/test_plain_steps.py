"""The drawing of a machine for which nothing else is written."""

from __future__ import annotations

import attrs

from tidegauge.model_tests.harness.report.diagram import card
from tidegauge.model_tests.harness.report.model import PartyView, Step
from tidegauge.model_tests.harness.report.plain_steps import PlainSteps
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.traces import Step as TraceStep
from tidegauge.spec.kernel.traces import Trace


@attrs.frozen
class Offer:
    price: int
    is_taken: bool = False


@attrs.frozen
class Trader:
    offers: tuple[Offer, ...] = ()
    waits: bool = False


@attrs.frozen
class Market:
    traders: tuple[Trader, ...]
    best: Offer | None = None
    open_days: int = 1


@attrs.frozen
class MakeOffer(Action):
    trader: int
    price: int = 7


BEFORE = Market((Trader(), Trader(waits=True)))
AFTER = Market((Trader((Offer(7), Offer(8, is_taken=True))), Trader()), best=Offer(7))
TRACE = Trace(BEFORE, (TraceStep(MakeOffer(0), AFTER),))
DRAW = PlainSteps((("traders", "trader"),))


def lanes(step: Step) -> dict[str, dict[str, str]]:
    return {party.lane: dict(party.values) for party in step.parties}


def test_parties_and_objects_have_lanes_and_what_is_at_its_default_is_left_out() -> None:
    first, second = DRAW(TRACE)
    assert lanes(first) == {
        "state": {"best": "None", "open days": "1"},
        "trader 0": {},
        "trader 1": {"waits": "True"},
    }
    assert lanes(second) == {
        "state": {"open days": "1"},
        "trader 0": {"offers[0]": "Offer(price=7)", "offers[1]": "Offer(price=8, is_taken=True)"},
        "trader 1": {},
        "best": {"price": "7"},
    }


def test_an_action_tells_all_its_fields() -> None:
    assert [(step.action, step.detail) for step in DRAW(TRACE)] == [
        ("initial state", ""),
        ("MakeOffer", "trader 0, price 7"),
    ]


def test_tuples_that_are_not_named_as_parties_stay_in_the_lane_of_the_state() -> None:
    first, second = PlainSteps()(TRACE)
    assert lanes(first)["state"]["traders[1]"] == "Trader(waits=True)"
    assert set(lanes(second)) == {"state", "best"}


def test_a_value_that_a_step_takes_away_is_marked_with_a_dash() -> None:
    first, second = DRAW(TRACE)
    drawn = str(card("trader 1", first, second))
    assert 'waits <b class="changed" title="was True">–</b>' in drawn


def test_a_lane_of_what_is_not_there_is_empty() -> None:
    first, second = DRAW(TRACE)
    assert str(card("best", None, first)) == '<div class="card empty"></div>'
    assert "7" in str(card("best", first, second))


def test_a_party_may_be_called_after_a_broker() -> None:
    step = Step("initial state", "", (), parties=(PartyView("broker of last resort", {"price": "9"}),))
    assert "9" in str(card("broker of last resort", None, step))
