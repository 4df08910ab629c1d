"""What a property says is found wherever its author has written it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tidegauge.spec.kernel.meaning import meaning, says, summary


def is_even(number: int) -> bool:
    """The number is even.

    Zero is.
    """
    return number % 2 == 0


def at_most(limit: int, number: int) -> bool:
    """The number is within the limit."""
    return number <= limit


def within(limit: int) -> Callable[[int], bool]:
    """The number is not over the limit."""

    def holds(number: int) -> bool:
        return number <= limit

    return holds


def rules() -> dict[str, Callable[[int], bool]]:
    """What holds of numbers."""
    return {"IsPositive": lambda number: number > 0}


class Numbers:
    def is_odd(self, number: int) -> bool:
        """The number is odd."""
        return number % 2 == 1


def test_it_is_the_docstring_in_one_line_or_its_first_paragraph() -> None:
    assert meaning(is_even) == "The number is even. Zero is."
    assert summary(is_even) == "The number is even."
    assert meaning(Numbers().is_odd) == "The number is odd."


def test_a_function_of_constants_says_what_its_maker_says() -> None:
    assert meaning(within(3)) == "The number is not over the limit."
    assert meaning(partial(at_most, 3)) == "The number is within the limit."


def test_a_lambda_says_what_was_said_beside_it_and_else_nothing() -> None:
    rule: Callable[[int], bool] = says("The number is negative.", lambda number: number < 0)
    assert rule(-1)
    assert meaning(rule) == "The number is negative."
    assert meaning(rules()["IsPositive"]) == ""
