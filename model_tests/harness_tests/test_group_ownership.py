"""Who of a group held which partition: what is drawn of a history of a group."""

from __future__ import annotations

from tidegauge.linearizability.history import Operation, Outcome
from tidegauge.model_tests.harness.report.model import Committed, Report, Stretch
from tidegauge.model_tests.harness.report.ownership import owned_in
from tidegauge.model_tests.harness.report.page import render
from tidegauge.model_tests.linearizability.group_rows import GroupRow, Kind, history_of

SECOND = 1_000_000_000


def a_group() -> list[Operation]:
    """Two members: the first one has both partitions, and gives one to the second."""

    def assigned(process: int, at: int, generation: int, *partitions: int) -> list[GroupRow]:
        at *= SECOND
        return [GroupRow(Kind.ASSIGN, process, at, at, generation, one) for one in partitions]

    def commit(process: int, at: int, generation: int, offset: int, outcome: Outcome) -> GroupRow:
        returned = None if outcome is Outcome.INFO else (at + 1) * SECOND
        return GroupRow(Kind.COMMIT, process, at * SECOND, returned, generation, 1, offset, outcome=outcome)

    return history_of(
        [
            *assigned(0, 10, 1, -1, 0, 1),
            commit(0, 11, 1, 5, Outcome.OK),
            GroupRow(Kind.RELEASE, 0, 13 * SECOND, partition=1),
            *assigned(0, 14, 2, -1, 0),
            *assigned(1, 14, 2, -1, 1),
            commit(0, 15, 1, 6, Outcome.FAIL),
            commit(1, 17, 2, 7, Outcome.INFO),
            GroupRow(Kind.DELIVER, 1, 20 * SECOND, 20 * SECOND, generation=2, partition=1, offset=7),
        ]
    )


def test_a_member_owns_a_partition_until_it_gives_it_back_or_is_assigned_it_anew() -> None:
    found = owned_in(a_group(), "again")
    assert (found.partitions, found.duration) == (2, 10.0)
    assert set(found.stretches) == {
        Stretch(0, 0, 1, 0.0, 4.0),
        Stretch(0, 0, 2, 4.0, 10.0),
        Stretch(1, 0, 1, 0.0, 3.0),
        Stretch(1, 1, 2, 4.0, 10.0),
    }
    assert found.commits == (
        Committed(1, 2.0, 5, "ok"),
        Committed(1, 6.0, 6, "failed"),
        Committed(1, 10.0, 7, "nobody knows"),
    )


def test_a_report_draws_a_lane_a_partition_with_generations_and_commits() -> None:
    page = render(Report("run", "1", None, 7, {}, (), "tidegauge verify", group=owned_in(a_group(), "tidegauge again")))
    assert "A group, and who owned what" in page
    assert page.count('class="lane"') == 2
    assert page.count("<rect") == 4
    assert "member 1, generation 2, 4.00 to 10.00 s" in page
    assert "offset 6 committed at 6.00 s: failed" in page
    assert "tidegauge again" in page
    assert "who owned what" not in render(Report("run", "1", None, 7, {}, (), "tidegauge verify"))


def test_a_partition_that_two_believe_that_they_own_has_two_bars_one_over_the_other() -> None:
    rows = [
        GroupRow(Kind.ASSIGN, 0, 0, SECOND, generation=1, partition=0),
        GroupRow(Kind.ASSIGN, 1, 0, 2 * SECOND, generation=2, partition=0),
        GroupRow(Kind.RELEASE, 0, 3 * SECOND, partition=0),
    ]
    page = render(Report("run", "1", None, 7, {}, (), "", group=owned_in(history_of(rows), "")))
    assert page.count('y="10" ') == 1
    assert page.count('y="32" ') == 1
