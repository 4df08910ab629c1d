"""Keys to sort instances of attrs classes by, and the published models' messages, which are kept in order by them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegauge.spec.kernel.sorting import by_class, by_fields
from tidegauge.spec.published.kip853 import state as kip853
from tidegauge.spec.published.kraft import state as kraft

positions = st.builds(kraft.Position, st.integers(0, 2), st.integers(0, 2))
servers = st.integers(0, 2)
fetches = st.builds(kraft.FetchRequest, servers, servers, servers, positions)
entries = st.lists(st.builds(kraft.Entry, servers, servers), max_size=2).map(tuple)
responses = st.builds(
    kraft.FetchResponse,
    servers, servers, servers, fetches, st.sampled_from(kraft.Result), servers, servers, entries=entries,
    diverging=positions,
)  # fmt: skip
votes = st.builds(kraft.RequestVoteResponse, servers, servers, servers, st.booleans(), st.integers(-1, 2))
messages = fetches | responses | votes


@given(st.lists(responses))
def test_instances_of_one_class_are_sorted_as_attrs_sorts_them(values: list[kraft.FetchResponse]) -> None:
    assert sorted(values, key=by_fields) == sorted(values)


@given(st.lists(messages))
def test_instances_of_several_classes_are_sorted_by_class_first(values: list[kraft.Message]) -> None:
    assert sorted(values, key=by_class) == sorted(values, key=lambda each: (type(each).__name__, each))


@given(st.lists(st.tuples(st.booleans(), messages)))
def test_messages_of_kraft_are_counted_in_order(steps: list[tuple[bool, kraft.Message]]) -> None:
    found: kraft.Messages = ()
    counts: dict[kraft.Message, int] = {}
    for is_sent, message in steps:
        found = kraft.sent(found, message) if is_sent else kraft.taken(found, message)
        counts[message] = counts.get(message, 0) + (1 if is_sent else -1)
    assert found == tuple(sorted(counts.items(), key=lambda item: (type(item[0]).__name__, item[0])))


@given(st.lists(st.tuples(st.booleans(), fetches | votes)))
def test_messages_of_kip_853_are_kept_in_order(steps: list[tuple[bool, kraft.Message]]) -> None:
    found: kip853.Messages = ()
    at: dict[kraft.Message, kip853.Whereabouts] = {}
    for is_sent, message in steps:
        if is_sent:
            found = kip853.sent(found, message)
            at[message] = kip853.Whereabouts(True, message in at and at[message].taken)
        elif message in at:
            found = kip853.taken(found, message)
            at[message] = kip853.Whereabouts(False, True)
    assert found == tuple(sorted(at.items(), key=lambda item: (type(item[0]).__name__, item[0])))
