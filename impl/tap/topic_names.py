"""The names behind topic ids, as brokers have told clients; and which topic of a name is meant."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.impl.wire.fields import NO_ID

INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics of the brokers' own, which are not recorded."""
MOST: Final = 200_000
"""Topics beyond which ids that are not known yet stay so."""


@attrs.define(eq=False)
class TopicNames:
    """For all threads: each change is one assignment to a dictionary."""

    _names: dict[str, str] = attrs.field(factory=dict)
    _newest: dict[str, str] = attrs.field(factory=dict)
    _first: dict[str, str] = attrs.field(factory=dict)

    def learn(self, name: str | None, topic_id: str) -> None:
        """A broker has told this id of a topic."""
        if not name or topic_id == NO_ID or (topic_id not in self._names and len(self._names) >= MOST):
            return
        self._first.setdefault(name, topic_id)
        self._names[topic_id] = name
        self._newest[name] = topic_id

    def label(self, name: str, topic_id: str = NO_ID) -> str:
        """What a topic is called in the recording: its name; and its id as well if the name had another one before.

        An id that nobody has told is its own name.
        """
        if topic_id == NO_ID:
            topic_id = self._newest.get(name, NO_ID)
        else:
            name = self._names.get(topic_id, "")
            if not name:
                return topic_id
        return name if topic_id == self._first.get(name, NO_ID) else f"{name}@{topic_id}"
