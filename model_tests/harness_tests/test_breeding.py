"""Campaigns that breed: a child is its parent up to its turn, and what reaches something new is kept."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from tidegauge.model_tests.harness.simulation.coverage import shape_of
from tidegauge.model_tests.harness.simulation.options import draw, read_turns, told_turns
from tidegauge.model_tests.harness.simulation.simulation import reproduce, simulate, traced
from tidegauge.model_tests.harness.verification.breeding import CORPUS, FIRST_CHILD, Corpus
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import State

PARENT = attrs.evolve(draw(4), partitions=1, duration=0.8)
TURN = 0.4


def test_a_child_is_its_parent_up_to_its_turn_and_another_run_after_it() -> None:
    parent, child = traced(PARENT), traced(attrs.evolve(PARENT, turns=((TURN, 7),)))
    alike = next(place for place, (one, other) in enumerate(zip(parent, child, strict=False)) if one != other)
    assert (child.times[alike] - child.times[0]) / 1e9 >= TURN
    assert alike > 100
    assert traced(attrs.evolve(PARENT, turns=((TURN, 7),))).digest() == child.digest() != parent.digest()


def test_the_command_that_repeats_a_child_names_its_turns() -> None:
    turns = ((0.35, 1), (0.8, 2))
    assert reproduce(attrs.evolve(PARENT, turns=turns)) == "tidegauge simulate --seed 4 --turns 0.35:1,0.8:2"
    assert read_turns(told_turns(turns)) == turns


@pytest.mark.parametrize("text", ["", "0.3", "x:1", "0.3:x", "-1:2", "0.3:-2", "0.8:1,0.2:3", "nan:1"])
def test_turns_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - float and int say what they cannot read
        read_turns(text)


def test_a_run_says_what_it_has_covered_and_when() -> None:
    run = simulate(PARENT, measured=True)
    assert run.holds
    assert len(run.covered) > 100
    assert min(run.covered.values()) == 0 < max(run.covered.values())
    assert simulate(PARENT, measured=True).covered == run.covered


def test_a_shape_has_neither_numbers_nor_names() -> None:
    (state,) = Replication(brokers=3).initial()
    one, other, paused = (with_session(state, broker) for broker in (1, 2, 0))
    assert shape_of(one) == shape_of(other) != shape_of(state)
    assert shape_of(paused) != shape_of(one), "it leads"


def with_session(state: State, paused: int) -> State:
    return state.with_replica(paused, attrs.evolve(state.replicas[paused], paused=True))


def grown(corpus: Corpus) -> list[tuple[int, str, int | None]]:
    """Two generations, in which every run reaches its own number, and a second thing later."""
    found = []
    for _ in range(2):
        for options in corpus.generation(10):
            number = options.seed if options.number is None else options.number
            corpus.take(options, {number: 0.2, -number: 0.4, 0: 0.1}, seconds=1.0)
            found.append((options.seed, told_turns(options.turns), options.number))
    return found


def test_what_was_first_to_reach_something_is_bred() -> None:
    corpus = Corpus(100)
    found = grown(corpus)
    assert [seed for seed, turns, _ in found[:10] if not turns] == [*range(100, 110)]
    children = [(seed, turns, number) for seed, turns, number in found[10:] if turns]
    assert len(children) > 3
    assert all(seed in range(100, 110) and number is not None for seed, _, number in children)
    assert all(turns.startswith(("0.1:", "0.2:", "0.4:")) for _, turns, _ in children)
    assert len({number for *_, number in children}) == len(children)
    assert min(number for *_, number in children if number) >= FIRST_CHILD
    assert (corpus.fresh.runs + corpus.bred.runs, corpus.bred.runs) == (20, len(children))
    assert found == grown(Corpus(100))


def test_a_run_that_reaches_nothing_new_is_not_kept() -> None:
    corpus = Corpus(1)
    first, second = corpus.generation(2)
    corpus.take(first, {1: 0.1, 2: 0.2}, seconds=1.0)
    corpus.take(second, {2: 0.1}, seconds=1.0)
    assert [(one.seed, one.new, one.moments) for one in corpus.kept] == [(1, 2, (0.1, 0.2))]


def test_a_corpus_is_kept_on_disk(tmp_path: Path) -> None:
    corpus = Corpus(100)
    grown(corpus)
    corpus.save(tmp_path)
    again = Corpus(100)
    again.load(tmp_path)
    assert [(one.seed, one.turns, one.moments) for one in again.kept] == [
        (one.seed, one.turns, one.moments) for one in corpus.kept
    ]
    assert any(options.turns for options in again.generation(5)), "there are parents from the beginning"
    (tmp_path / CORPUS).write_text('{"seed": 1}\n')
    with pytest.raises(ValueError, match=r"corpus.jsonl: .* says of no run"):
        again.load(tmp_path)
