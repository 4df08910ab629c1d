"""What extensions of the specification add to messages, and to what nodes know of one another.

Each extension that adds anything brings its own `MessageParts`, to the cores and to a cluster alike. All that are
registered are read beside every machine: one without the extension must have no such part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVarTuple, Unpack

from tidegauge.impl.metadata.image import BrokerRegistration
from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.partition.state import RemoteReplica
from tidegauge.spec.kernel.parts import Part, Parts, parts_of
from tidegauge.spec.replication.state import Log

Ts = TypeVarTuple("Ts")


class MessageParts:
    """Of one extension, which overrides what it adds to: None is no part."""

    def of_fetch(self, fetch: FollowerFetch) -> Part | None:
        return None

    def of_fetch_response(self, response: PartitionFetchResponse, history: Log) -> Part | None:
        """`history` is all that the leader's log has had."""
        return None

    def of_follower(self, follower: RemoteReplica) -> Part | None:
        """Of what a leader knows of a follower that has fetched."""
        return None

    def of_session(self, broker: BrokerRegistration) -> Part | None:
        return None

    def of_absent(self) -> Part | None:
        """Of the session of a broker that is not registered."""
        return None

    def said(self, fetch: FollowerFetch, parts: Parts) -> FollowerFetch:
        """The fetch as the implementation has it, with what its parts say."""
        return fetch


class Additions:
    """What a number of extensions add together."""

    def __init__(self, *extensions: MessageParts) -> None:
        self._all = extensions
        self._of_fetch = tuple(one.of_fetch for one in extensions if _adds(one, "of_fetch"))
        self._of_response = tuple(one.of_fetch_response for one in extensions if _adds(one, "of_fetch_response"))
        self._of_follower = tuple(one.of_follower for one in extensions if _adds(one, "of_follower"))
        self._of_session = tuple(one.of_session for one in extensions if _adds(one, "of_session"))
        self._of_absent = tuple(one.of_absent for one in extensions if _adds(one, "of_absent"))

    def to_fetch(self, fetch: FollowerFetch) -> Parts:
        return _parts(self._of_fetch, fetch)

    def to_fetch_response(self, response: PartitionFetchResponse, history: Log) -> Parts:
        return _parts(self._of_response, response, history)

    def to_follower(self, follower: RemoteReplica) -> Parts:
        return _parts(self._of_follower, follower)

    def to_session(self, broker: BrokerRegistration) -> Parts:
        return _parts(self._of_session, broker)

    def to_absent(self) -> Parts:
        return _parts(self._of_absent)

    def said(self, fetch: FollowerFetch, parts: Parts) -> FollowerFetch:
        """The fetch as the implementation has it, with what the parts of the specification's say."""
        for one in self._all:
            fetch = one.said(fetch, parts)
        return fetch


def _adds(extension: MessageParts, method: str) -> bool:
    return getattr(type(extension), method) is not getattr(MessageParts, method)


def _parts(added: Sequence[Callable[[Unpack[Ts]], Part | None]], *of: *Ts) -> Parts:
    return parts_of(*[part for add in added if (part := add(*of)) is not None])
