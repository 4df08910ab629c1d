"""A draft's dict looks like a copy of the original's with the same changes."""

from __future__ import annotations

from random import Random

import pytest

from tidegauge.impl.metadata.draft_dict import DraftDict
from tidegauge.model_tests.amounts import amount

NAMES = "abcdef"


@pytest.mark.parametrize("seed", range(amount(15, deep=50)))
def test_every_change_is_seen_as_in_a_copy_and_merged_in_the_same_order(seed: int) -> None:
    draw = Random(seed)
    original = dict.fromkeys(draw.sample(NAMES, 4), 0)
    before, copied, draft = dict(original), dict(original), DraftDict(original)
    for step in range(1, 12):
        name = draw.choice(NAMES)
        if name in copied and draw.random() < 0.3:
            del copied[name], draft[name]
        elif draw.random() < 0.2:
            assert draft.pop(name, None) == copied.pop(name, None)
        else:
            copied[name] = draft[name] = step
        assert (list(draft), list(draft.items()), len(draft)) == (list(copied), list(copied.items()), len(copied))
        assert (list(draft.keys()), list(draft.values())) == (list(copied), list(copied.values()))
        for each in NAMES:
            assert (each in draft, draft.get(each), draft.get(each, -1)) == (
                each in copied,
                copied.get(each),
                copied.get(each, -1),
            )
        assert draft == copied
        assert dict(draft) == copied
        assert list(original.items()) == list(before.items()), "the original is not changed"
    assert draft.merge() is original
    assert list(original.items()) == list(copied.items())


def test_what_is_not_there_cannot_be_asked_for_or_removed() -> None:
    draft = DraftDict({"a": 1})
    del draft["a"]
    for name in ("a", "b"):
        with pytest.raises(KeyError):
            draft[name]
        with pytest.raises(KeyError):
            del draft[name]
