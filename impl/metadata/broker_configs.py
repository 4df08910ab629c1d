"""Brokers' settings that can be changed while they run: for whom, and under which names (KIP-226).

Most are changed for all brokers or for one of them. Some are each broker's own (where it listens, how it speaks TLS and
SASL), and are changed for one broker only. Of these, what a listener shows and whom it trusts is changed for one
listener of one broker, under the name `listener.name.<listener>.<setting>`; limits of connections may be, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from tidegauge.impl.metadata.config_types import Setting

_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(?P<setting>.+)")


def name_without_listener(name: str) -> str:
    """The setting that a name sets, be it for one listener or for all."""
    match = _OF_LISTENER.fullmatch(name)
    return name if match is None else match["setting"]


@attrs.frozen(eq=False, repr=False)
class DynamicSettings:
    """The settings that can be changed while brokers run."""

    settings: Mapping[str, Setting] = attrs.field(factory=dict)
    """By name, without a listener."""
    of_one_broker: frozenset[str] = frozenset()
    """Those that each broker has for itself."""
    of_one_listener: frozenset[str] = frozenset()
    """Those that are changed for one listener only."""
    also_of_listeners: frozenset[str] = frozenset()
    """Those that can be changed for one listener, too."""

    def find(self, name: str) -> Setting | None:
        """The setting of this name; None when it cannot be changed while brokers run."""
        plain = name_without_listener(name)
        if plain != name and plain not in self.of_one_listener | self.also_of_listeners:
            return None
        setting = self.settings.get(plain)
        return None if setting is None else setting._replace(name=name)

    def error(self, name: str, text: str, *, of_all_brokers: bool) -> str:
        """What is wrong with a setting of one broker, or of all; "" when nothing is."""
        setting, plain = self.find(name), name_without_listener(name)
        if setting is None and plain != name:
            known = ", ".join(sorted(self.of_one_listener | self.also_of_listeners))
            return f"{name} cannot be changed for one listener while brokers run; what can is {known}"
        if setting is None:
            known = ", ".join(sorted(self.settings))
            return f"{name} cannot be changed while brokers run; what can is {known}"
        if name in self.of_one_listener:
            return f"{name} is changed for one listener at a time: name it listener.name.<listener>.{name}"
        if of_all_brokers and plain in self.of_one_broker | self.of_one_listener:
            return f"{name} is each broker's own: give a broker's id"
        try:
            setting.parse(text)
        except ValueError as error:
            return f"{name}={text!r}: {error}"
        return ""
