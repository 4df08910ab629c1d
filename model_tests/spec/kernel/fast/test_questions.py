"""Questions are shared by all programs, so that nothing waits for one that somebody else is to ask later."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numba")

from tidegauge.model_tests.spec.kernel.fast.random_machines import RandomMachine
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import Limits, Stop, explore
from tidegauge.spec.kernel.fast.questions import WHOLE, Questions
from tidegauge.spec.kernel.fast.search import FastSearch
from tidegauge.spec.kernel.fast.trie_tables import BEING_ASKED, NOT_ASKED
from tidegauge.spec.published.kip320.machine import Kip320


def test_no_question_is_open_where_new_states_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invariant that meets an open question would look again and again: nobody is left to ask it."""
    judge, judged = FastSearch.judge, list[int]()

    def look(search: FastSearch[Any], expanding: int) -> None:
        questions = search.layout.questions
        assert not (questions.table == BEING_ASKED).any()
        judged.append(len(questions.words))
        judge(search, expanding)

    monkeypatch.setattr(FastSearch, "judge", look)
    explore(Kip320(max_records=2, max_leader_epoch=1), engine=Engine.FAST)
    for seed in range(20):
        explore(RandomMachine(seed), engine=Engine.FAST, stop=Stop.NEVER, limits=Limits(states=400))
    assert sum(judged) > 1_000


def test_what_is_found_while_threads_look_is_known_and_kept_once_they_are_at_rest() -> None:
    questions = Questions()
    values = [[(), (1,), (1, 2)]]
    word = questions.word(0, len, (WHOLE,), values[0])
    for number, value in enumerate(values[0]):
        questions.met(0, number, value)
    questions.hold()
    before = questions.table.copy()
    assert [questions.finding([number], word, values) for number in (2, 1)] == [2, 1]
    assert [questions.value([number], word) for number in (2, 1)] == [0, 1]
    assert (questions.table == before).all()
    questions.release()
    assert questions.table[0, :3].tolist() == [NOT_ASKED, 1, 0]
    assert questions.finding([0], word, values) == 0
    assert questions.table[0, :3].tolist() == [2, 1, 0]
