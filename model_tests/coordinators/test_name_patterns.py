"""Patterns of names match what Python's do, in one pass."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.impl.coordinators.name_patterns import (
    MOST_CHARACTERS,
    MOST_NODES,
    MOST_POSITIONS,
    STEP,
    NamePattern,
    PatternError,
)

ATOMS = st.sampled_from(["a", "b", ".", r"\w", r"\.", "[ab]", "[^a]", "[]a]", "-", "^", "$"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: f"({'|'.join(options)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{0}", "*?"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.lists(st.text("ab.-]", max_size=5), max_size=5))
def test_a_pattern_matches_what_pythons_matches(pattern: str, texts: list[str]) -> None:
    ours, theirs = NamePattern(pattern), re.compile(pattern, re.DOTALL)
    for text in ["", "a", "ab", *texts]:
        assert ours.matches(text) == bool(theirs.fullmatch(text)), text


CLASS_PARTS = st.sampled_from(
    ["a", "B", "é", "İ", "ſ", "a-c", "X-b", "À-ſ", "!-~", r"\d", r"\W", r"\n", r"\]", r"\x41", "^", "-"]
)


@pytest.mark.filterwarnings("ignore:Possible")
@given(st.lists(CLASS_PARTS, min_size=1, max_size=4).map("".join), st.booleans(), st.sampled_from(["", "(?i)"]))
def test_a_class_takes_what_pythons_takes(inner: str, is_negated: bool, flags: str) -> None:
    pattern = f"{flags}[{'^' * is_negated}{inner}]"
    try:
        theirs = re.compile(pattern, re.DOTALL)
    except re.error:
        with pytest.raises(PatternError):
            NamePattern(pattern)
        return
    ours = NamePattern(pattern)
    for character in "aAbBcxXzZ019_-^]\n éÉÀà":
        assert ours.matches(character) == bool(theirs.fullmatch(character)), character


def test_making_a_pattern_and_each_step_of_a_match_are_bounded() -> None:
    wide = "".join(f"[\\u{0x3000 + place:x}-\uffff]?" for place in range(MOST_POSITIONS))
    for pattern in (f"(?i){wide}", f"(a?){{{MOST_POSITIONS}}}", f".*a.{{{MOST_POSITIONS - 3}}}"):
        one = NamePattern(pattern)
        assert one.work <= MOST_NODES
        assert all(isinstance(units, int) and units <= STEP * MOST_NODES // 10 for units in one.matching("a" * 1_000))


@pytest.mark.parametrize("pattern", ["^pay.*$", "pay.*", r"(?P<who>pay|sell)-\d+", r"pay\-7", "pay-7", ".*[0-9]"])
def test_what_operators_ask_for_is_found(pattern: str) -> None:
    one = NamePattern(pattern)
    assert (one.matches("pay-7"), one.matches("play")) == (True, False)
    assert NamePattern(r"\$").matches("$")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("^a$|^b$", {"a", "b"}),
        ("(^|x)a", {"a", "xa"}),
        (r"\Aa(b|\z)", {"a", "ab"}),
        ("a^b", set()),
        ("(?i)a", {"a", "A"}),
        ("(?is)[[:alpha:]]b?", {"a", "A", "b", "ab", "xb"}),
        ("[[:alpha:]_]", {"a", "A", "b", "_"}),
        ("", {""}),
    ],
)
def test_anchors_flags_and_named_classes_are_re2s(pattern: str, found: set[str]) -> None:
    one = NamePattern(pattern)
    assert {text for text in ("", "a", "A", "b", "_", "ab", "xa", "xb") if one.matches(text)} == found


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*", "(a|b|ab)*", "a*" * 50])
def test_no_pattern_goes_back(pattern: str) -> None:
    assert not NamePattern(pattern).matches("a" * 10_000 + "!"), "else this never ends"


NONE = [
    "(",
    ")",
    "a)b",
    "[a",
    "*a",
    "a**",
    "a{2,1}",
    "\\",
    r"(a)\1",
    "(?=a)b",
    r"\ba",
    "[z-a]",
    "[[:no:]]",
    "(?x)a",
    r"\p",
]
TOO_MUCH = [
    f"a{{{MOST_POSITIONS + 1}}}",
    "(a{200}){200}",
    "(((){200}){200}){200}",
    "a{9999}",
    "(" * 500,
    f"[{'a' * MOST_CHARACTERS}]",
]


@pytest.mark.parametrize("pattern", [*NONE, *TOO_MUCH])
def test_what_is_no_pattern_or_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        NamePattern(pattern)
