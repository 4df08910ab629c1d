"""A view of a state behaves as the state, and notes what is read of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.fast.layout import ABSENT, Layout, ShapeError
from tidegauge.spec.kernel.fast.moving import Copied, Gone, Moved
from tidegauge.spec.kernel.fast.origins import in_order
from tidegauge.spec.kernel.fast.questions import Itself
from tidegauge.spec.kernel.fast.trie_tables import NOT_ASKED
from tidegauge.spec.kernel.fast.views import Run, changes, plain, view
from tidegauge.spec.kernel.parts import Part, Parts
from tidegauge.spec.kernel.piecemeal import IN_PARTS, PIECEMEAL, one_at_a_time, question


@attrs.frozen
class Mark(Part):
    value: int = 0


@attrs.frozen(order=True, cache_hash=True)
class Item:
    size: int
    name: str
    parts: Parts = ()

    @property
    def is_large(self) -> bool:
        return self.size > 5


@attrs.frozen
class Shelf:
    items: tuple[Item, ...]
    top: Item
    notes: tuple[int, ...] = ()
    orders: tuple[Item, ...] = attrs.field(default=(), metadata=PIECEMEAL)


@one_at_a_time
def sent(orders: tuple[Item, ...], order: Item) -> tuple[Item, ...]:
    return orders if order in orders else tuple(sorted((*orders, order)))


@one_at_a_time
def received(orders: tuple[Item, ...], order: Item) -> tuple[Item, ...]:
    return tuple(each for each in orders if each != order)


@question
def large(orders: tuple[Item, ...], size: int) -> tuple[Item, ...]:
    return tuple(each for each in orders if each.size > size)


@question
def new_in(before: tuple[Item, ...], after: tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(each for each in after if each not in before)


@question
def first(orders: tuple[Item, ...]) -> Item:
    return orders[0]


ORDER, OTHER = Item(1, "a"), Item(2, "c")
SHELF = Shelf((ORDER, Item(7, "b", (Mark(3),))), OTHER, orders=(ORDER,))


def viewed() -> tuple[Layout, Run, Any]:
    layout = Layout([SHELF])
    run = Run(layout, layout.encoded(SHELF))
    return layout, run, view(run, layout.root)


def places(layout: Layout, run: Run) -> list[str]:
    return [layout.places[word] if word < layout.words else "a finding" for word in run.words]


def changed(layout: Layout, run: Run, after: object) -> list[tuple[int, object]]:
    """The words that change, one by one, of what moves as a whole or goes as well."""
    found: list[tuple[int, object]] = []
    changes(run, layout.root, after, found)
    words = list[tuple[int, object]]()
    for word, value in found:
        if isinstance(value, Moved):
            words += value.words
        elif isinstance(value, Gone):
            words += [(each, ABSENT) for each in value.words]
        else:
            words.append((word, value))
    return words


@pytest.mark.parametrize(
    ("look", "read"),
    [
        (lambda s: s.items[1].is_large, [".items[1].size"]),
        (lambda s: [item.name for item in s.items], [".items[0].name", ".items[1].name"]),
        (lambda s: len(s.items), []),
        (lambda s: s.top == s.top, []),
        (lambda s: evolve(s, notes=(1,)).top is s.top, []),
        (lambda s: evolve(s.top, size=1) == s.top, [".top.size"]),
        (lambda s: evolve(s.top, size=9).name, [".top.name"]),
        (lambda s: s.items[0] == s.top, [".items[0].size", ".top.size"]),
        (lambda s: s.top in {Item(2, "c")}, [".top.size", ".top.name", ".top.parts"]),
        (lambda s: Mark.of(s.items[1]).value, [".items[1].parts"]),
        (lambda s: s.notes or s.notes, [".notes"]),
        (lambda s: ORDER in s.orders and ORDER in s.orders, ["a finding"]),
        (lambda s: (OTHER in s.orders, ORDER not in s.orders), ["a finding", "a finding"]),
        (lambda s: s.top in s.orders, [".top.size", ".top.name", ".top.parts", "a finding"]),
        (lambda s: len(s.orders) and ORDER in s.orders, ["a finding", "a finding"]),
        (lambda s: bool(s.orders) or [*s.orders], ["a finding"]),
        (lambda s: [*s.orders] and len(s.orders), [".orders"]),
        (lambda s: s.orders[0].name, ["a finding"]),
        (lambda s: s.orders[:1] + s.orders[1:], ["a finding", "a finding"]),
        (lambda s: large(s.orders, 0) == large(s.orders, 0), ["a finding"]),
        (lambda s: new_in(s.orders, sent(s.orders, OTHER)), ["a finding"]),
        (lambda s: new_in(s.orders, (ORDER, OTHER)), ["a finding"]),
        (lambda s: sent(s.orders, OTHER) == sent(s.orders, OTHER), []),
        (lambda s: sent(s.orders, OTHER) == s.orders, ["a finding"]),
        (lambda s: ORDER in received(s.orders, OTHER), ["a finding"]),
        (lambda s: evolve(s, orders=sent(s.orders, OTHER)).top.size, [".top.size"]),
    ],
)
def test_what_is_read_is_noted_once_in_its_order(look: Callable[[Shelf], object], read: list[str]) -> None:
    layout, run, shelf = viewed()
    assert look(shelf) == look(SHELF)
    assert places(layout, run) == read


@pytest.mark.parametrize(
    "look",
    [
        lambda s: max(s.items),
        lambda s: sorted((s.top, *s.items)),
        lambda s: s.items[0] < s.top,
        lambda s: s.items[0] >= s.top,
        lambda s: hash(s.top),
        lambda s: repr(s),
        lambda s: s != evolve(s, notes=(1,)),
        lambda s: s.top != Item(2, "c"),
        lambda s: Item(2, "c") == s.top,
        lambda s: s == 3,
        lambda s: isinstance(s.top, Item),
        lambda s: attrs.evolve(s.top, size=4),
        lambda s: {s.top, Item(2, "c")},
        lambda s: frozenset(s.items) - {Item(1, "a")},
        lambda s: [*s.orders],
        lambda s: (*s.orders, OTHER),
        lambda s: (OTHER, *s.orders)[:1] + s.orders,
        lambda s: s.orders + s.notes,
        lambda s: s.orders == (ORDER,),
        lambda s: [ORDER, (ORDER,)].index(s.orders),
        lambda s: s.orders != s.orders,
        lambda s: s.orders == received(sent(s.orders, OTHER), OTHER),
        lambda s: s.orders[0].name,
        lambda s: bool(s.orders) and not received(s.orders, ORDER),
        lambda s: hash(s.orders),
        lambda s: repr(s.orders),
        lambda s: sent(received(s.orders, ORDER), s.top),
        lambda s: {s.orders: 1}[(ORDER,)],
        lambda s: evolve(s, orders=received(s.orders, ORDER)),
        lambda s: [s.orders[0], s.orders[-1], s.orders[0:1], s.orders[::2]],
        lambda s: large(sent(s.orders, Item(8, "x")), s.top.size),
        lambda s: new_in(received(s.orders, ORDER), sent(s.orders, OTHER)),
        lambda s: new_in(s.orders, s.items),
    ],
)
def test_a_view_behaves_as_what_it_is_a_view_of(look: Callable[[Shelf], object]) -> None:
    _, _, shelf = viewed()
    assert plain(look(shelf)) == look(SHELF)


def test_a_step_is_the_words_that_change() -> None:
    layout, run, shelf = viewed()
    after = evolve(shelf, items=(shelf.items[0], evolve(shelf.items[1], size=8)))
    found = changed(layout, run, after)
    assert [(layout.places[word], value) for word, value in found] == [(".items[1].size", 8)]
    assert run.words == []


def test_a_message_that_is_sent_or_received_is_a_change_of_the_others_whatever_they_are() -> None:
    layout, run, shelf = viewed()
    found: list[tuple[int, Any]] = []
    changes(run, layout.root, evolve(shelf, orders=received(sent(shelf.orders, OTHER), ORDER)), found)
    ((word, orders),) = found
    assert (layout.places[word], run.words) == (".orders", [])
    assert [message for _, message in orders.changes] == [OTHER, ORDER]
    assert Itself(orders.changes).after((ORDER, Item(9, "z"))) == (OTHER, Item(9, "z"))


def test_a_question_that_raises_raises_where_it_is_asked_and_nowhere_else() -> None:
    layout, _, shelf = viewed()
    assert first(shelf.orders) == ORDER
    layout.number(layout.places.index(".orders"), ())
    empty = view(Run(layout, layout.encoded(evolve(SHELF, orders=()))), layout.root)
    assert first(shelf.orders) == ORDER
    with pytest.raises(IndexError):
        first(empty.orders)
    with pytest.raises(IndexError):
        first(received(shelf.orders, ORDER))


def test_a_question_is_asked_of_a_value_once_and_when_somebody_wants_to_know() -> None:
    asked = list[tuple[Item, ...]]()

    @question
    def counted(orders: tuple[Item, ...]) -> int:
        asked.append(orders)
        return len(orders)

    layout, run, shelf = viewed()
    assert counted(shelf.orders) == counted(shelf.orders) == len(SHELF.orders)
    (word,) = run.words
    new = (Item(9, "z"), ORDER)
    other = layout.encoded(evolve(SHELF, orders=new))
    assert asked == [SHELF.orders]
    assert layout.questions.value(other, word) == NOT_ASKED
    for _ in range(2):
        assert layout.questions.finding(other, word, layout.values) == 2
        assert asked == [SHELF.orders, new]
    assert layout.questions.value(other, word) != layout.questions.value(run.row, word)


def test_messages_that_stay_as_they_are_change_nothing() -> None:
    layout, run, shelf = viewed()
    found = changed(layout, run, attrs.evolve(shelf, notes=(1,)))
    assert "notes" in "".join(layout.places[word] for word, _ in found)
    assert ".orders" not in {layout.places[word] for word, _ in found}


def test_a_row_that_moves_to_another_place_is_not_read() -> None:
    layout, run, shelf = viewed()
    found = changed(layout, run, evolve(shelf, top=shelf.items[0]))
    places_of = [(layout.places[word], layout.places[by.word]) for word, by in found if isinstance(by, Copied)]
    assert places_of == [(f".top.{name}", f".items[0].{name}") for name in ("size", "name", "parts")]
    assert len(places_of) == len(found)
    assert places(layout, run) == []


def test_a_step_to_another_shape_names_the_place() -> None:
    layout, run, shelf = viewed()
    with pytest.raises(ShapeError) as raised:
        changes(run, layout.root, evolve(shelf, items=(shelf.top,)), [])
    assert raised.value.place == ".items"
    whole = layout.reshaped(ShapeError(".items"))
    assert ".items" in whole.places
    assert whole.decoded(whole.encoded(evolve(SHELF, items=(SHELF.top,)))) == evolve(SHELF, items=(OTHER,))


def test_a_view_in_a_value_is_made_plain() -> None:
    _, _, shelf = viewed()
    made = plain((shelf.top, frozenset({shelf.items[0]}), [1], Shelf((shelf.top,), shelf.top)))
    assert made == (Item(2, "c"), frozenset({Item(1, "a")}), [1], Shelf((Item(2, "c"),), Item(2, "c")))
    assert type(made[0]) is Item
    assert type(made[3].top) is Item


# --- parts -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class Label:
    text: str


@attrs.frozen
class Store:
    rows: tuple[Item | Label, ...] = attrs.field(default=(), metadata=IN_PARTS)
    best: Item | None = attrs.field(default=None, metadata=IN_PARTS)


FULL, EMPTY = Store((ORDER, OTHER, Label("end")), ORDER), Store()


def stored(state: Store) -> tuple[Layout, Run, Any]:
    layout = Layout([EMPTY, FULL])
    run = Run(layout, layout.encoded(state))
    return layout, run, view(run, layout.root)


@pytest.mark.parametrize(
    ("look", "read"),
    [
        (lambda s: len(s.rows), [".rows", ".rows[0]", ".rows[1]", ".rows[2]"]),
        (lambda s: s.best is None, [".best"]),
        (lambda s: s.best.size, [".best", ".best:Item.size"]),
        (lambda s: isinstance(s.best, Label), [".best"]),
    ],
)
def test_of_a_value_in_parts_is_read_what_is_looked_at(look: Callable[[Any], object], read: list[str]) -> None:
    layout, run, store = stored(FULL)
    assert look(store) == look(FULL)
    assert places(layout, run) == read


@pytest.mark.parametrize("state", [FULL, EMPTY, Store((Label("a"),)), Store((OTHER,), OTHER)])
def test_a_value_in_parts_is_made_again(state: Store) -> None:
    layout, run, store = stored(state)
    assert layout.decoded(run.row) == plain(store) == store == state
    assert store.rows is store.rows


@pytest.mark.parametrize(
    "step",
    [
        lambda s: evolve(s, rows=s.rows[:1]),
        lambda s: evolve(s, rows=s.rows[1:]),
        lambda s: evolve(s, rows=(*s.rows[:1], Label("x"))),
        lambda s: evolve(s, rows=s.rows[::-1]),
        lambda s: evolve(s, rows=()),
        lambda s: evolve(s, best=None),
        lambda s: evolve(s, best=OTHER),
        lambda s: evolve(s, best=s.rows[1] if len(s.rows) > 1 and isinstance(s.rows[1], Item) else s.best),
        lambda s: evolve(s, best=s.best and evolve(s.best, size=9)),
        lambda s: evolve(s, best=ORDER if s.best is None else None, rows=(*s.rows, OTHER)[:3]),
        lambda s: Store(s.rows[:2], s.best),
    ],
)
@pytest.mark.parametrize("state", [FULL, EMPTY, Store((OTHER,)), Store((Label("a"), ORDER), OTHER)])
def test_changes_of_parts_lead_to_the_row_of_the_state_after(step: Callable[[Any], Any], state: Store) -> None:
    layout, run, store = stored(state)
    found = changed(layout, run, step(store))
    row = [*run.row]
    for word, value in found:
        before = layout.values[value.word][run.row[value.word]] if isinstance(value, Copied) else plain(value)
        row[word] = layout.number(word, before)
    assert row == layout.encoded(step(state))


def test_what_is_not_there_has_words_that_say_so() -> None:
    layout, run, _ = stored(EMPTY)
    absent = {layout.places[word] for word, number in enumerate(run.row) if layout.values[word][number] is ABSENT}
    assert absent == {*layout.places} - {".rows", ".best"}


@pytest.mark.parametrize("state", [Store(FULL.rows * 2), Store((), Label("a"))])  # type: ignore[arg-type]
def test_a_longer_tuple_or_another_class_has_more_words(state: Store) -> None:
    layout, run, store = stored(FULL)
    with pytest.raises(ShapeError) as met:
        changes(run, layout.root, evolve(store, rows=state.rows, best=state.best), [])
    more = layout.reshaped(met.value)
    assert more.decoded(more.encoded(state)) == state
    assert len(more.places) > len(layout.places)
    assert more.whole == frozenset()


def test_what_moves_to_another_place_is_not_read() -> None:
    layout, run, store = stored(FULL)
    found = changed(layout, run, evolve(store, best=store.rows[0]))
    words = dict(zip(layout.places, range(layout.words), strict=True))
    copies = {layout.places[word]: layout.places[by.word] for word, by in found if isinstance(by, Copied)}
    assert copies[".best:Item.size"] == ".rows[0]:Item.size"
    assert places(layout, run) == [".rows", *(f".rows[{row}]" for row in range(3))]
    assert all(not run.is_read[words[place]] for place in copies.values())


def test_what_has_been_read_moves_as_a_value() -> None:
    layout, run, store = stored(FULL)
    assert store.rows[0].size == 1
    found = changed(layout, run, evolve(store, best=store.rows[0]))
    assert (layout.places.index(".best:Item.size"), 1) in found
    assert (layout.places.index(".best:Item.name"), Copied(layout.places.index(".rows[0]:Item.name"))) in found


def test_a_longer_tuple_has_words_behind_all_others() -> None:
    layout, run, store = stored(FULL)
    longer = Store(FULL.rows * 2)
    with pytest.raises(ShapeError) as met:
        changes(run, layout.root, evolve(store, rows=longer.rows), [])
    words, length = layout.words, layout.places.index(".rows")
    more = layout.extended(met.value)
    assert more == {length: range(words, layout.words)}
    assert {place[:8] for place in layout.places[words:]} == {".rows[3]", ".rows[4]", ".rows[5]"}
    assert layout.encoded(FULL) == [*run.row, *[0] * (layout.words - words)]
    assert [layout.decoded(layout.encoded(each)) for each in (FULL, longer, EMPTY)] == [FULL, longer, EMPTY]


@pytest.mark.parametrize("state", [Store((), Label("a")), Store((Store(),))])  # type: ignore[arg-type]
def test_another_class_makes_the_search_begin_again(state: Store) -> None:
    layout, run, store = stored(FULL)
    with pytest.raises(ShapeError) as met:
        changes(run, layout.root, evolve(store, rows=state.rows, best=state.best), [])
    assert layout.extended(met.value) is None
    assert layout.words == len(stored(FULL)[0].places)


@pytest.mark.parametrize(
    ("copies", "read"),
    [
        ({1: 2, 2: 3, 3: 4}, []),
        ({4: 3, 3: 2, 2: 1}, []),
        ({1: 2, 3: 2, 2: 5}, []),
        ({1: 2, 2: 1}, [2]),
        ({1: 2, 2: 3, 3: 1, 9: 1}, [2]),
    ],
)
def test_a_word_is_changed_behind_those_that_have_its_value(copies: dict[int, int], read: list[int]) -> None:
    known: list[int] = []
    ordered = in_order(copies, known.append)
    assert sorted(ordered) == sorted(copies)
    assert known == read
    for word, source in copies.items():
        if source in copies and source not in known:
            assert ordered.index(word) < ordered.index(source)


def test_a_mark_does_not_count_where_nothing_is_to_be_in_parts() -> None:
    assert Layout([FULL, EMPTY], in_parts=False).places == [".rows", ".best"]
