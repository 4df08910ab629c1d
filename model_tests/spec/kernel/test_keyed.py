"""Values by their keys: a tuple of pairs in the order of the keys, whichever way they came."""

from __future__ import annotations

from random import Random

import attrs

from tidegauge.spec.kernel.keyed import OfEach, Pairs, in_order, value_of, with_value
from tidegauge.spec.kernel.machine import Action


@attrs.frozen(order=True, cache_hash=True)
class Key:
    number: int


@attrs.frozen(order=True, cache_hash=True)
class Later:
    number: int


@attrs.frozen
class Asked(Action):
    number: int


def test_a_key_has_the_value_that_it_was_given_last() -> None:
    for seed in range(20):
        random, known = Random(seed), dict[Key | Later, int]()
        pairs: Pairs[Key | Later, int] = ()
        for _ in range(30):
            key = random.choice((Key, Later))(random.randrange(5))
            known[key] = random.randrange(3)
            pairs = with_value(pairs, (key, known[key]))
        assert dict(pairs) == known
        assert len(pairs) == len(known)
        assert [*pairs] == sorted(pairs, key=in_order)
        every = [kind(number) for kind in (Key, Later) for number in range(6)]
        assert [value_of(pairs, key) for key in every] == [known.get(key) for key in every]


def test_keys_are_in_the_order_of_their_classes_and_then_of_their_fields() -> None:
    pairs = ((Later(0), 1), (Key(2), 2), (Key(1), 3))
    assert [key for key, _ in sorted(pairs, key=in_order)] == [Key(1), Key(2), Later(0)]


def test_a_rule_of_each_pair_gives_what_it_gives_of_all_behind_each_other() -> None:
    rule = OfEach[Pairs[Key, int], Key, int, Asked](lambda state: state, lambda key, value: [Asked(key.number)] * value)
    assert rule(((Key(1), 2), (Key(3), 0), (Key(4), 1))) == (Asked(1), Asked(1), Asked(4))
