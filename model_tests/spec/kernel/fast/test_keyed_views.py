"""Of values by their keys a rule reads those that it asks for; a key that is new gets a word behind all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tidegauge.model_tests.spec.kernel.fast.random_posts import Card, Letter, Post, Process, letters_of
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.fast.bases import Bases
from tidegauge.spec.kernel.fast.layout import ABSENT, Layout, ShapeError
from tidegauge.spec.kernel.fast.origins import Origins
from tidegauge.spec.kernel.fast.tries import Tries
from tidegauge.spec.kernel.fast.views import After, Changed, Run, changes, plain, view
from tidegauge.spec.kernel.keyed import OfEach, Pairs, value_of, with_value
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.piecemeal import one_at_a_time, question

ONE, OTHER, NEW = Card(0, 1), Letter(1, 0), Letter(0, 0)
POST = Post((Process(), Process(2)), 0, ((ONE, 1), (OTHER, 0)))


def viewed() -> tuple[Layout, Run, Any]:
    layout = Layout([POST])
    run = Run(layout, layout.encoded(POST))
    return layout, run, view(run, layout.root)


def read(layout: Layout, run: Run) -> list[object]:
    """The keys that were read."""
    keys = dict(zip(range(layout.words - len(layout.keys), layout.words), layout.keys, strict=True))
    return [keys[word][1] for word in run.words]


def test_a_key_that_is_asked_for_is_read_and_no_other() -> None:
    layout, run, post = viewed()
    assert value_of(post.letters, OTHER) == 0
    assert read(layout, run) == [OTHER]
    assert value_of(post.letters, ONE) == 1
    assert read(layout, run) == [OTHER, ONE]


def test_a_new_key_is_known_not_to_be_there() -> None:
    layout, run, post = viewed()
    grown: list[int] = []
    layout.growing.append(lambda: grown.append(layout.words))
    before = layout.encoded(POST)
    assert value_of(post.letters, NEW) is None
    assert read(layout, run) == [NEW]
    assert grown == [len(before) + 1] == [layout.words]
    assert [run.values[word][run.row[word]] for word in run.words] == [ABSENT]
    assert layout.decoded(before) == layout.decoded(layout.completed(before)) == POST
    assert layout.encoded(POST) == layout.completed(before)


def test_a_key_is_given_a_value_without_being_read() -> None:
    layout, run, post = viewed()
    letters = with_value(with_value(post.letters, (NEW, 2)), (ONE, 0))
    assert (value_of(letters, NEW), value_of(letters, ONE)) == (2, 0)
    found: list[tuple[int, object]] = []
    changes(run, layout.root, evolve(post, letters=letters), found)
    assert read(layout, run) == []
    row = layout.completed(run.row)
    for word, value in found:
        row[word] = layout.number(word, value)
    assert layout.decoded(row) == evolve(POST, letters=((ONE, 0), (NEW, 2), (OTHER, 0)))


def test_two_states_are_compared_by_the_keys_that_have_changed() -> None:
    layout, run, post = viewed()
    assert post.letters == evolve(post, counter=1).letters
    assert read(layout, run) == []
    assert with_value(post.letters, (ONE, 1)) == post.letters
    assert with_value(post.letters, (ONE, 0)) != post.letters
    assert read(layout, run) == [ONE]


def test_the_state_after_a_step_is_compared_by_the_keys_that_the_step_changes() -> None:
    layout, _, _ = viewed()
    word = {key: place for place, key in enumerate(layout.keys, layout.words - len(layout.keys))}[".letters", ONE]
    children = getattr(layout.root, "children", ())
    (letters,) = (child for child in children if child.place == ".letters")
    bits = {layout.root: 0, letters: 1} | {child: bit for bit, child in enumerate(children, 2) if child is not letters}
    for value, is_equal in ((1, True), (0, False)):
        before = Run(layout, layout.encoded(POST))
        fixed = {word: layout.number(word, value)}
        after = After(before, Changed(fixed, 0b11, bits), Origins(layout, Tries()))
        one, other = view(before, layout.root), view(after, layout.root)
        assert value_of(other.letters, ONE) == value
        assert read(layout, before) == [], "what the step sets is not read"
        assert (one.letters == other.letters) is (other.letters == one.letters) is is_equal
        assert read(layout, before) == [ONE]
        assert value_of(other.letters, OTHER) == 0
        assert value_of(other.letters, Letter(2, value)) is None
        assert read(layout, before) == [ONE, OTHER, Letter(2, value)]
        assert one.processes == other.processes


@question
def counted(letters: Pairs[Letter, int]) -> int:
    return len(letters)


@one_at_a_time
def emptied(letters: Pairs[Letter, int], by: object) -> Pairs[Letter, int]:
    return ()


@pytest.mark.parametrize(
    "look",
    [
        lambda letters: [*letters],
        len,
        bool,
        hash,
        repr,
        plain,
        counted,
        lambda letters: letters[0],
        lambda letters: letters[1:],
        lambda letters: (ONE, 1) in letters,
        lambda letters: letters == POST.letters,
        lambda letters: letters + ((NEW, 1),),  # noqa: RUF005 - an operator of its own
        lambda letters: ((NEW, 1), *letters),
        lambda letters: ((NEW, 1),) + letters,  # noqa: RUF005 - an operator of its own
        lambda letters: emptied(letters, 0),
        lambda letters: plain((1, letters)),
    ],
)
def test_who_looks_at_all_pairs_has_them_be_one_word(look: Callable[[Any], object]) -> None:
    layout, _, post = viewed()
    with pytest.raises(ShapeError) as raised:
        look(post.letters)
    assert raised.value.place == ".letters"
    whole = layout.reshaped(raised.value)
    assert ".letters" in whole.places
    assert {place for place, _ in whole.keys} <= {".processes[0].told", ".processes[1].told"}
    run = Run(whole, whole.encoded(POST))
    letters = view(run, whole.root).letters
    assert value_of(letters, ONE) == 1
    assert value_of(with_value(letters, (NEW, 2)), NEW) == 2
    assert run.is_read[whole.places.index(".letters")] == 0, "a question is a word of its own"


def test_a_rule_of_each_pair_asks_a_question_where_all_pairs_are_one_word() -> None:
    layout = Layout([POST], whole=[".letters"])
    rule: OfEach[Post, Letter, int, Told] = OfEach(letters_of, lambda letter, count: [Told(letter)] * count)
    run = Run(layout, layout.encoded(POST))
    assert rule(view(run, layout.root)) == rule(POST) == (Told(ONE),)
    (word,) = run.words
    other = layout.encoded(evolve(POST, letters=((ONE, 1), (NEW, 0))))
    assert layout.questions.finding(other, word, layout.values) == (Told(ONE),)
    assert layout.questions.value(other, word) == layout.questions.value(run.row, word)


def test_pairs_that_move_elsewhere_are_one_word_there() -> None:
    layout, run, post = viewed()
    processes = (evolve(post.processes[0], told=post.letters), post.processes[1])
    with pytest.raises(ShapeError) as raised:
        changes(run, layout.root, evolve(post, processes=processes), [])
    assert raised.value.place == ".processes[0].told"


def test_what_is_known_of_keys_outlives_another_shape_and_a_checkpoint() -> None:
    layout, _, post = viewed()
    value_of(post.letters, NEW)
    value_of(post.processes[1].told, ONE)
    keys = [(".letters", ONE), (".letters", OTHER), (".letters", NEW), (".processes[1].told", ONE)]
    assert layout.keys == keys
    layout.encoded(evolve(POST, letters=((NEW, 2),)))
    again = Layout([POST]).resumed(layout.saved())
    assert (again.keys, again.places, again.values) == (keys, layout.places, layout.values)
    assert layout.reshaped(ShapeError(".processes[1].told")).keys == keys[:3]


@attrs.frozen
class Told(Action):
    letter: Letter


def test_a_rule_of_each_pair_is_a_program_for_each_key_in_their_order() -> None:
    layout, tries, runs = Layout([POST]), Tries(), list[Callable[[Run, Any], int]]()
    asked = list[tuple[Letter, int]]()

    def made(run: Callable[[Run, Any], int]) -> int:
        runs.append(run)
        return tries.program()

    def of(letter: Letter, count: int) -> list[Told]:
        asked.append((letter, count))
        return [Told(letter)] * count

    rule: OfEach[Post, Letter, int, Told] = OfEach(letters_of, of)
    told = list[list[Action]]()

    def leaf(actions: Any) -> int:
        told.append([*actions])
        return len(told)

    bases = Bases([lambda state: [], rule, lambda state: []], layout, POST, tries, made, leaf)
    first, one, other, last = bases.numbers()
    assert min(first, last) >= 0 > max(one, other)
    run = Run(layout, layout.encoded(POST))
    runs[-1 - one](run, None)
    assert (asked, told[-1], read(layout, run)) == ([(ONE, 1)], [Told(ONE)], [ONE])
    layout.encoded(evolve(POST, letters=((NEW, 1),)))
    assert [number for number in bases.numbers() if number in (first, one, other, last)] == [first, one, other, last]
    (new,) = {*bases.numbers()} - {first, one, other, last}
    assert bases.numbers().index(new) == 2, "of the class Letter, and before the other one"
    assert tries.roots[-1 - new] >= 0, "where it is not there, that is known"
