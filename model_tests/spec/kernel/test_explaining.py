"""A property that is false says which of its conditions decided, in the words of its source, and their values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.explaining import BECAUSE, told, why_false


class Colour(Enum):
    RED = 1
    BLUE = 2


@attrs.frozen
class Lamp:
    colour: Colour
    level: int
    marks: tuple[int, ...] = ()


@attrs.frozen
class Lamps:
    lamps: tuple[Lamp, ...]
    most: int = 3


RED, DIM, BRIGHT = Lamp(Colour.RED, 0), Lamp(Colour.BLUE, 1, (2, 3)), Lamp(Colour.BLUE, 9)
LIMIT = 4


def is_dim(lamp: Lamp, most: int) -> bool:
    return lamp.level <= most


def is_fine(lamp: Lamp) -> bool:
    """It calls another function of this package, and is called by one."""
    is_low = lamp.level < LIMIT
    return is_low and 3 not in lamp.marks


def each_is_dim(state: Lamps) -> bool:
    for number, lamp in enumerate(state.lamps):  # noqa: B007 - it is told
        if lamp.colour is Colour.BLUE:  # noqa: SIM102 - a form that properties have
            if not is_dim(lamp, state.most):
                return False
    return True


def each_is_blue(state: Lamps) -> bool:
    return all(lamp.colour is Colour.BLUE for number, lamp in enumerate(state.lamps) if lamp.level >= 0)


def none_is_marked(state: Lamps) -> bool:
    return not any(mark > 2 for lamp in state.lamps for mark in lamp.marks)


def some_is_bright(state: Lamps) -> bool:
    return bool(state.lamps) and any(lamp.level > 5 for lamp in state.lamps)


def levels_are_known(state: Lamps) -> bool:
    """Of two sets neither may be a part of the other one."""
    return {lamp.level for lamp in state.lamps} <= {0, 9}


def each_is_fine(state: Lamps) -> bool:
    return all(is_fine(lamp) for lamp in state.lamps)


def few_or_dark(state: Lamps) -> bool:
    return len(state.lamps) < 2 or state.lamps[0].level == state.lamps[1].level


def first_is_red(state: Lamps) -> bool:
    if not state.lamps:
        return True
    if state.lamps[0].colour is Colour.RED:  # noqa: SIM103 - a form that properties have
        return True
    return False


def chosen_by_number(state: Lamps) -> bool:
    return state.most > 2 if len(state.lamps) == 1 else state.most > LIMIT


def of_either(state: Lamps) -> bool:
    if state.most > LIMIT:
        return True
    else:  # noqa: RET505 - a form that properties have
        if state.lamps:
            return False
    return True


def is_close(state: Lamps) -> bool:
    first = state.lamps[0] if state.lamps else None
    return (LIMIT if first is None else first.level) == state.most


def uses_up(given: Iterator[int]) -> bool:
    return next(given) > 1 and next(given) > 2


def limited(most: int) -> Callable[[Lamps], bool]:
    def holds(state: Lamps) -> bool:
        return state.most <= most

    return holds


class Rules:
    most = 2

    def holds(self, state: Lamps) -> bool:
        return state.most <= self.most


def not_dimmed(before: Lamps, action: str, after: Lamps) -> bool:
    return action != "dim" or after.most >= before.most


def within(most: int, state: Lamps) -> bool:
    return state.most <= most


TWO = (lambda state: state.most > 3, lambda state: state.most > 4)
CASES: Sequence[tuple[Callable[..., object], tuple[object, ...], str, dict[str, object]]] = [
    (
        each_is_dim,
        (Lamps((RED, BRIGHT)),),
        "lamp.colour is Colour.BLUE and not is_dim(lamp, state.most)",
        {"number": 1, "lamp.colour": Colour.BLUE, "lamp": BRIGHT, "state.most": 3},
    ),
    (each_is_blue, (Lamps((DIM, RED)),), "lamp.colour is not Colour.BLUE", {"number": 1, "lamp.colour": Colour.RED}),
    (none_is_marked, (Lamps((RED, DIM)),), "mark > 2", {"mark": 3}),
    (some_is_bright, (Lamps(()),), "not bool(state.lamps)", {"state.lamps": ()}),
    (
        some_is_bright,
        (Lamps((RED,)),),
        "not any((lamp.level > 5 for lamp in state.lamps))",
        {"state.lamps": (RED,)},
    ),
    (
        levels_are_known,
        (Lamps((DIM,)),),
        "not {lamp.level for lamp in state.lamps} <= {0, 9}",
        {"state.lamps": (DIM,)},
    ),
    (
        each_is_fine,
        (Lamps((RED, DIM)),),
        "not is_fine(lamp) and 3 in lamp.marks",
        {"lamp": DIM, "lamp.marks": (2, 3)},
    ),
    (each_is_fine, (Lamps((BRIGHT,)),), "not is_fine(lamp) and not is_low", {"lamp": BRIGHT, "is_low": False}),
    (
        few_or_dark,
        (Lamps((RED, DIM)),),
        "len(state.lamps) >= 2 and state.lamps[0].level != state.lamps[1].level",
        {"state.lamps": (RED, DIM), "state.lamps[0].level": 0, "state.lamps[1].level": 1},
    ),
    (
        first_is_red,
        (Lamps((DIM,)),),
        "state.lamps and state.lamps[0].colour is not Colour.RED",
        {"state.lamps": (DIM,), "state.lamps[0].colour": Colour.BLUE},
    ),
    (
        chosen_by_number,
        (Lamps((RED, RED)),),
        "len(state.lamps) != 1 and state.most <= LIMIT",
        {"state.lamps": (RED, RED), "state.most": 3},
    ),
    (
        of_either,
        (Lamps((RED,)),),
        "state.most <= LIMIT and state.lamps",
        {"state.most": 3, "state.lamps": (RED,)},
    ),
    (
        is_close,
        (Lamps(()),),
        "(LIMIT if first is None else first.level) != state.most",
        {"first": None, "state.most": 3},
    ),
    (limited(2), (Lamps(()),), "state.most > most", {"state.most": 3, "most": 2}),
    (Rules().holds, (Lamps(()),), "state.most > self.most", {"state.most": 3, "self.most": 2}),
    (
        not_dimmed,
        (Lamps((), 4), "dim", Lamps((), 3)),
        "action == 'dim' and after.most < before.most",
        {"after.most": 3, "before.most": 4},
    ),
    (partial(within, 2), (Lamps(()),), "state.most > most", {"state.most": 3, "most": 2}),
    (TWO[1], (Lamps((), 2),), "state.most <= 4", {"state.most": 2}),
]


@pytest.mark.parametrize(("rule", "given", "conditions", "values"), CASES)
def test_what_decided_is_told_with_its_values(
    rule: Callable[..., object], given: tuple[object, ...], conditions: str, values: dict[str, object]
) -> None:
    reason = why_false(rule, *given)
    assert (" and ".join(reason.conditions), dict(reason.values)) == (conditions, values)


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        (each_is_dim, (Lamps((DIM,)),)),  # it is true
        (partial(within, state=Lamps(())), (2,)),  # with arguments by name
        (bool, (0,)),  # no function of Python
        (uses_up, (iter([1]),)),  # what it looks at is gone when it is asked again
        (eval("lambda state: False"), (Lamps(()),)),  # without a source
    ],
)
def test_where_nothing_can_be_told_nothing_is(rule: Callable[..., object], given: tuple[object, ...]) -> None:
    assert why_false(rule, *given).values_by_name() == {}


def test_a_long_value_is_left_out() -> None:
    state = Lamps(tuple(Lamp(Colour.RED, 100_000 + level) for level in range(50)))
    assert why_false(each_is_blue, state).values["lamp.colour"] is Colour.RED
    assert why_false(some_is_bright, attrs.evolve(state, lamps=())).values == {"state.lamps": ()}
    assert why_false(few_or_dark, state).values.keys() == {"state.lamps[0].level", "state.lamps[1].level"}


def test_who_watches_already_goes_on_watching() -> None:
    seen: list[str] = []

    def watch(frame: Any, event: str, argument: object) -> None:
        seen.append(frame.f_code.co_name)

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        why_false(each_is_blue, Lamps((RED,)))
        is_watching = sys.gettrace() is watch
        is_fine(RED)
    finally:
        sys.settrace(before)
    assert is_watching
    assert seen[-1] == "is_fine"


def test_conditions_come_first_and_are_no_value() -> None:
    assert list(told({BECAUSE: "a and b", "a": RED})) == ["false because a and b", "a = Lamp(colour=RED, level=0)"]
