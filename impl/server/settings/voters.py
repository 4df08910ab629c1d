"""The voters of the metadata log's quorum: the controllers, by id, and where each listens (KIP-595).

They are told as Kafka's `controller.quorum.voters` has them: `3000@host-a:9093,3001@host-b:9093`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from tidegauge.impl.ports.network import Address

SETTING: Final = "controller.quorum.voters"

_VOTER: Final = re.compile(
    r"(?P<id>\d{1,9})@(?:(?P<host>[^\[\]:@/,\s]+)|\[(?P<ipv6>[0-9A-Fa-f:.]+)\]):(?P<port>\d{1,5})"
)


class Voter(NamedTuple):
    """One controller."""

    id: int
    address: Address


def parse_voters(given: Iterable[str], *, what: str = SETTING) -> tuple[Voter, ...]:
    """The voters of these texts, each ID@HOST:PORT, in their order; `what` is what they were given by.

    Raises ValueError naming it, the text and what is wrong: no such text, an id or an address that comes twice.
    """
    voters: list[Voter] = []
    for text in given:
        match = _VOTER.fullmatch(text)
        if match is None or not 0 < int(match["port"]) < 65_536:
            raise ValueError(f"{what} has {text!r}: write ID@HOST:PORT, as in 3000@127.0.0.1:9093")
        voter = Voter(int(match["id"]), Address(match["ipv6"] or match["host"], int(match["port"])))
        for known in voters:
            if known.id == voter.id:
                raise ValueError(f"{what} has id {voter.id} twice: no two controllers have the same")
            if known.address == voter.address:
                raise ValueError(f"{what} has {voter.address} twice, as {known.id} and {voter.id}: name each node once")
        voters.append(voter)
    return tuple(voters)


def check_voters(given: tuple[str, ...]) -> None:
    """Raises ValueError as `parse_voters` does."""
    parse_voters(given, what="it")


def check_membership(given: Iterable[str], node_id: int, *, is_alone: bool) -> None:
    """Raises ValueError for voters of which this controller is none; `is_alone`: or is not the only one."""
    ids = [voter.id for voter in parse_voters(given)]
    if ids and node_id not in ids:
        raise ValueError(f"{SETTING} names {', '.join(map(str, ids))}: this controller is {node_id}; name it as well")
    if is_alone and len(ids) > 1:
        raise ValueError(
            f"{SETTING} names {len(ids)} controllers: this one keeps its metadata log alone; name {node_id} alone"
        )
