"""From a certificate's name to a principal, by the rules of `ssl.principal.mapping.rules` (KIP-371).

A rule is DEFAULT, which takes the name as it is, or RULE:pattern/replacement/ with a regular expression that has to
match the whole name and a replacement in which $1 is its first group; L or U behind it makes the result lower or upper
case. Rules are separated by commas, and the first that matches counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)

_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


class NoPrincipalError(Exception):
    """No rule makes a principal of this name."""


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, rules: str) -> None:
        """Raises ValueError naming the rule that is none."""
        self._rules: list[tuple[re.Pattern[str], str, Callable[[str], str]]] = []
        position = 0
        while position < len(rules.strip()):
            match = _RULE.match(rules, position)
            if match is None:
                raise ValueError(
                    f"ssl.principal.mapping.rules has {rules[position:]!r}: write DEFAULT or "
                    "RULE:pattern/replacement/, with L or U behind it for lower or upper case"
                )
            position = match.end()
            self._rules.append(_rule(match))

    def name(self, distinguished_name: str) -> str:
        """The principal's name. Raises NoPrincipalError."""
        for pattern, replacement, case in self._rules:
            if (match := pattern.fullmatch(distinguished_name)) is not None:
                return case(match.expand(replacement))
        raise NoPrincipalError(f"no rule of ssl.principal.mapping.rules matches {distinguished_name!r}")


def _rule(match: re.Match[str]) -> tuple[re.Pattern[str], str, Callable[[str], str]]:
    if match["default"]:
        return re.compile("(.*)", re.DOTALL), r"\g<1>", str
    try:
        pattern = re.compile(match["pattern"].replace(r"\/", "/"))
        replacement = re.sub(r"\$(\d+)", r"\\g<\1>", match["replacement"].replace(r"\/", "/"))
        pattern.sub(replacement, "")
    except (re.error, IndexError) as error:
        raise ValueError(f"ssl.principal.mapping.rules has {match[0].strip()!r}: {error}") from None
    return pattern, replacement, _CASES[match["case"]]
