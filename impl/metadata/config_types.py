"""What a setting is: its name, its type, its default, what values it takes, and a sentence about it.

Topics' settings (`impl.metadata.topic_configs`) and brokers' (`impl.server.settings`) are made of these. Values come as
text, the way they stand in requests, in the metadata log and in property files; `parse` turns them into what code uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias


class ConfigType(IntEnum):
    """The types of settings, with the codes that DescribeConfigs gives them (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


Rule: TypeAlias = Callable[[Any], None]
"""Raises ValueError saying what a parsed value must be."""


def anything(_: Any) -> None:
    """Every value of the type."""


def at_least(least: float) -> Rule:
    """Numbers from `least` on."""
    return between(least, math.inf)


def between(least: float, most: float) -> Rule:
    """Numbers from `least` to `most`."""

    def check(value: float) -> None:
        if not least <= value <= most:
            raise ValueError(
                f"it must be at least {least}" if most == math.inf else f"it must be from {least} to {most}"
            )

    return check


def one_of(*words: str) -> Rule:
    """One of these texts."""

    def check(value: str) -> None:
        if value not in words:
            raise ValueError(f"it must be one of {', '.join(words)}")

    return check


def members_of(*words: str) -> Rule:
    """Lists of these texts, each at most once (KIP-1161)."""

    def check(value: tuple[str, ...]) -> None:
        if not set(value) <= set(words):
            raise ValueError(f"it must be a list of {', '.join(words)}")
        if len(set(value)) < len(value):
            raise ValueError("it must have each word once")

    return check


class Setting(NamedTuple):
    """One setting of a topic or a broker."""

    name: str
    kind: ConfigType
    default: Any
    """The value where none is configured; None is no value."""
    documentation: str
    rule: Rule = anything
    synonyms: tuple[tuple[str, int], ...] = ()
    """Of a topic's setting: the brokers' settings that set its default, by precedence. The number is what
    one of the broker's units is in the topic's: log.retention.hours has 3,600,000 ms each."""

    def parse(self, given: object) -> Any:
        """The value of a text; values of the type itself are accepted too. Raises ValueError with a message."""
        value = _PARSERS[self.kind](given)
        self.rule(value)
        return value

    @property
    def default_text(self) -> str | None:
        """The default as a response has it."""
        return as_text(self.default)

    @property
    def is_list(self) -> bool:
        return self.kind is ConfigType.LIST


def as_text(value: Any) -> str | None:
    """A parsed value in the form in which it is configured; None is no value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def split_list(text: str) -> tuple[str, ...]:
    """The items of a list, as they stand between commas."""
    return tuple(item for part in text.split(",") if (item := part.strip()))


def _boolean(given: object) -> bool:
    text = str(given).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text == "true"


def _whole(bits: int) -> Callable[[object], int]:
    most = (1 << (bits - 1)) - 1

    def parse(given: object) -> int:
        if isinstance(given, bool) or (isinstance(given, float) and not given.is_integer()):
            raise ValueError("it must be a whole number")
        try:
            number = int(_digits(given) if isinstance(given, str) else given)  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError):
            raise ValueError("it must be a whole number") from None
        if not -most - 1 <= number <= most:
            raise ValueError(f"it must be a whole number of {bits} bits")
        return int(number)

    return parse


def _digits(text: str) -> str:
    """A number's text, which int() and float() would take with underscores, and in the digits of every script."""
    if "_" in text or not text.isascii():
        raise ValueError
    return text.strip()


def _double(given: object) -> float:
    try:
        number = float(_digits(given) if isinstance(given, str) else given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError("it must be a number") from None
    if not math.isfinite(number):
        raise ValueError("it must be a finite number")
    return number


def _text(given: object) -> str:
    return str(as_text(given)).strip()


def _list(given: object) -> tuple[str, ...]:
    return split_list(as_text(given) or "")


_PARSERS: Final[dict[ConfigType, Callable[[object], Any]]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _text,
    ConfigType.INT: _whole(32),
    ConfigType.SHORT: _whole(16),
    ConfigType.LONG: _whole(64),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: _text,
    ConfigType.PASSWORD: _text,
}
