"""A value may begin with a dash: an option takes it, and what is no value is left to the parser."""

from __future__ import annotations

import pytest

from tidegauge.linearizability.command_words import values_joined

VALUED = ("--memory", "--conf")
KNOWN = (*VALUED, "--json", "-h")


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        ("--memory -5m", "--memory=-5m"),
        ("--memory 5m --json", "--memory 5m --json"),
        ("--memory --json", "--memory --json"),
        ("--memory -h", "--memory -h"),
        ("--memory", "--memory"),
        ("--memory --conf -a=b", "--memory --conf=-a=b"),
        ("--memory --conf=a=b", "--memory --conf=a=b"),
        ("--memory -5m -6m", "--memory=-5m -6m"),
        ("--json -x", "--json -x"),
        ("a --memory b --memory -c", "a --memory b --memory=-c"),
        ("-- --memory -5m", "-- --memory -5m"),
        ("--memory -- -5m", "--memory -- -5m"),
    ],
)
def test_an_option_takes_the_value_that_follows_it(words: str, joined: str) -> None:
    assert values_joined(words.split(), VALUED, KNOWN) == joined.split()
