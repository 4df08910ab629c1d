"""Who watches a client: for histories of what clients saw."""

from __future__ import annotations

from typing import Any, Protocol

import attrs


@attrs.frozen
class Operation:
    """What a client is about to do; `name` is produce, fetch or list_offsets."""

    client_id: str
    name: str
    topic: str
    partition: int
    values: tuple[bytes, ...] = ()
    """produce: the records' values."""
    acks: int = -1
    """produce: 0, 1 or -1 (all)."""
    offset: int = -1
    """fetch: where from. list_offsets: what for: -2 earliest, -1 latest, else a timestamp in ms."""
    topic_ids: list[str] = attrs.field(factory=list, eq=False, repr=False)
    """The ids that the topic had, as far as the client knew, at each attempt so far: its name may become another's.

    A produce and a fetch name the id, so that they are of that very topic.
    """


class Observer(Protocol):
    """Told of every operation when it is called and when it returns; each gets exactly one end."""

    def invoked(self, operation: Operation) -> Any:
        """The operation begins. What is returned is handed to the call that ends it."""

    def returned(self, token: Any, result: Any) -> None:
        """It succeeded: the base offset (None for acks=0), `Fetched`, or `ListedOffset`."""

    def failed(self, token: Any, error: BaseException) -> None:
        """It failed with a KafkaError (see `maybe_done`), or was cancelled: then nobody knows what became of it."""
