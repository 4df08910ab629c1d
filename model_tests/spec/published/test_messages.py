"""A message is taken by the actions of its class alone, in every published model with messages of several classes."""

from __future__ import annotations

from typing import Any, Final

import attrs
import pytest

from tidegauge.model_tests.spec.walked import machine_of, walked

MET: Final = {
    "kraft": 6,
    "pull-raft": 5,
    "pull-raft-2": 5,
    "kip853": 5,
    "kip996": 5,
    "replication-3.5": 6,
    "transactions-diary": 4,
}
"""The classes of messages that are on their way on the walks."""


def messages_of(state: Any) -> list[Any]:
    """What is on its way, or was: most models keep with each message how often it is there."""
    return [one[0] if isinstance(one, tuple) else one for one in state.messages]


@pytest.mark.parametrize("name", MET)
def test_an_action_takes_messages_of_its_class_alone(name: str) -> None:
    machine, met = machine_of(name), set[type]()
    kinds: list[Any] = [kind for kind in machine.action_types if hasattr(kind, "takes")]
    for state in walked(name):
        for message in messages_of(state):
            met.add(type(message))
            for kind in kinds:
                if not isinstance(message, kind.takes):
                    action = kind(message, *(0 for _ in attrs.fields(kind)[1:]))
                    assert action.guard(machine, state) == f"a {kind.takes.__name__} is on its way"
    assert len(met) == MET[name]
