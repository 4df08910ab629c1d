"""Users and passwords as text: `sasl.users`, and Kafka's JAAS configuration of PLAIN."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_ITEM: Final = re.compile(r"((?:\\.|[^\\,:])+):((?:\\.|[^\\,])*)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_ESCAPE: Final = re.compile(r"([,:\\])")
_BACKSLASHED: Final = r"\\\1"


def parse_users(given: str) -> dict[str, str]:
    """The users of `sasl.users`, with their passwords. Raises ValueError, without showing a password."""
    users: dict[str, str] = {}
    position = 0
    while position < len(given):
        match = _ITEM.match(given, position)
        if match is None or not match[2] or (match.end() < len(given) and given[match.end()] != ","):
            raise ValueError(
                f"sasl.users: item {len(users) + 1} is not name:password; separate users by commas, "
                "and write \\ before a , : or \\ that belongs to a name or password"
            )
        users[_ESCAPED.sub(r"\1", match[1]).strip()] = _ESCAPED.sub(r"\1", match[2])
        position = match.end() + 1
    return users


def format_users(users: Mapping[str, str]) -> str:
    """What `parse_users` reads."""
    return ",".join(
        f"{_NEEDS_ESCAPE.sub(_BACKSLASHED, name)}:{_NEEDS_ESCAPE.sub(_BACKSLASHED, secret)}"
        for name, secret in users.items()
    )


_JAAS_OPTION: Final = re.compile(r"""(\w[^\s=]*)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""")


def parse_jaas_users(given: str) -> dict[str, str]:
    """The users of a JAAS configuration of Kafka's PlainLoginModule: its options user_<name>="<password>"."""
    options = _jaas_options(given)
    return {name.removeprefix("user_"): value for name, value in options.items() if name.startswith("user_")}


def parse_jaas_login(given: str) -> tuple[str, str] | None:
    """(user, password) by which a node itself logs in: the options `username` and `password`; None without both."""
    options = _jaas_options(given)
    user, password = options.get("username", ""), options.get("password", "")
    return (user, password) if user and password else None


def _jaas_options(given: str) -> dict[str, str]:
    return {
        match[1]: _ESCAPED.sub(r"\1", next(group for group in match.groups()[1:] if group is not None))
        for match in _JAAS_OPTION.finditer(given)
    }
