"""The general search on objects that are no logs, its witness and its limits."""

from __future__ import annotations

from itertools import count

import attrs
import pytest

from tidegauge.linearizability.search import Call, Limits, SearchVerdict, search, search_partitions


@attrs.frozen
class Register:
    """A register: ("write", x) or ("read", x)."""

    def initial(self) -> int:
        return 0

    def step(self, state: int, operation: tuple[str, int]) -> int | None:
        kind, value = operation
        if kind == "write":
            return value
        return state if value == state else None


def test_overlapping_operations_may_take_effect_in_any_order() -> None:
    calls = [Call(("write", 1), 0, 10), Call(("read", 1), 1, 2), Call(("read", 0), 3, 4)]
    assert search(Register(), calls[:2]).verdict is SearchVerdict.OK
    assert search(Register(), calls).verdict is SearchVerdict.ILLEGAL
    assert search(Register(), [calls[0], calls[2]]).order == (1, 0)


def test_what_never_returned_may_happen_or_not() -> None:
    maybe = Call(("write", 1), 0, None)
    assert search(Register(), [maybe, Call(("read", 0), 5, 6), Call(("read", 1), 7, 8)]).verdict is SearchVerdict.OK
    assert (
        search(Register(), [maybe, Call(("read", 1), 5, 6), Call(("read", 0), 7, 8)]).verdict is SearchVerdict.ILLEGAL
    )
    assert search(Register(), [maybe]).order == ()


def test_the_witness_is_the_longest_prefix_that_can_be_explained() -> None:
    calls = [Call(("write", number), 10 * number, 10 * number + 1) for number in range(1, 5)]
    calls.append(Call(("read", 2), 100, 101))
    result = search(Register(), calls)
    assert result.verdict is SearchVerdict.ILLEGAL
    assert result.order == (0, 1, 2, 3)


def test_operations_that_touch_are_concurrent() -> None:
    assert search(Register(), [Call(("write", 1), 0, 5), Call(("read", 0), 5, 6)]).verdict is SearchVerdict.OK
    assert search(Register(), [Call(("write", 1), 0, 5), Call(("read", 0), 6, 7)]).verdict is SearchVerdict.ILLEGAL


def hard() -> list[Call[tuple[str, int]]]:
    """Twelve concurrent writes, and a read that none of them explains."""
    return [*(Call(("write", number), 0, 100) for number in range(1, 13)), Call(("read", 99), 0, 100)]


@pytest.mark.parametrize("limits", [Limits(steps=500), Limits(configurations=100)])
def test_the_search_gives_up_at_its_limit(limits: Limits) -> None:
    assert search(Register(), hard(), limits).verdict is SearchVerdict.UNKNOWN
    assert search(Register(), hard()).verdict is SearchVerdict.ILLEGAL


def test_the_clock_is_the_callers() -> None:
    ticks = count(0, 1_000)
    limits = Limits(nanoseconds=2_000, clock=lambda: next(ticks))
    result = search(Register(), hard(), limits)
    assert result.verdict is SearchVerdict.UNKNOWN
    assert result.steps == 3 * 1_024
    with pytest.raises(ValueError, match="needs a clock"):
        Limits(nanoseconds=5)


def test_partitions_are_searched_one_by_one() -> None:
    results = search_partitions(Register(), {"a": [Call(("read", 0), 0, 1)], "b": [Call(("read", 1), 0, 1)]})
    assert {key: result.verdict for key, result in results.items()} == {
        "a": SearchVerdict.OK,
        "b": SearchVerdict.ILLEGAL,
    }
