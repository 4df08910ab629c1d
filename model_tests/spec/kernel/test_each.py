"""An invariant that holds of each number is one as any other, and may be asked of one number at a time."""

from __future__ import annotations

from tidegauge.spec.kernel.each import holds_of_each, parts_of
from tidegauge.spec.kernel.explaining import why_false
from tidegauge.spec.kernel.meaning import meaning


def is_small(number: int, sizes: tuple[int, ...]) -> bool:
    """Each of them is small."""
    return sizes[number] < 3


def test_it_holds_where_all_of_its_parts_do() -> None:
    holds = holds_of_each(range(2), is_small)
    for sizes in ((1, 2), (1, 3), (3, 1), (4, 4)):
        assert holds(sizes) == all(part(sizes) for part in parts_of(holds)) == (max(sizes) < 3)
        assert [part(sizes) for part in parts_of(holds)] == [size < 3 for size in sizes]


def test_it_says_what_its_rule_says_and_of_which_number_it_is_false() -> None:
    holds = holds_of_each(range(2), is_small)
    assert meaning(holds) == "Each of them is small."
    reason = why_false(holds, (1, 5))
    assert "sizes[number] >= 3" in reason.conditions
    assert reason.values["number"] == 1


def test_a_property_of_steps_is_asked_of_each_number_as_well() -> None:
    def grows(number: int, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        return before[number] <= after[number]

    holds = holds_of_each(range(2), grows)
    assert holds((1, 2), (1, 3))
    assert not holds((1, 2), (2, 1))
    assert [part((1, 2), (2, 1)) for part in parts_of(holds)] == [True, False]


def test_any_other_invariant_is_its_only_part() -> None:
    def holds(sizes: tuple[int, ...]) -> bool:
        return bool(sizes)

    assert parts_of(holds) == [holds]
