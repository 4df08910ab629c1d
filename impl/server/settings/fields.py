"""Fields of a configuration class that are settings: each with a type, a default, a rule and a sentence about it.

A field's name is the setting's name with underscores for dots. `whole`, `flag` and the others make fields;
`setting_of` returns the `Setting` of a field. A configuration class is a `Configuration`, which checks what is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import attrs

from tidegauge.impl.metadata.config_types import ConfigType, Rule, Setting, anything, at_least, between, one_of

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


class Update(Enum):
    """Whether a broker's setting can be changed while it runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    PER_LISTENER = "per-broker, for one listener at a time"
    CLUSTER_WIDE = "cluster-wide"
    """For all brokers, or for one of them."""


def property_name(field: str) -> str:
    """Kafka's name of a field."""
    return field.replace("_", ".")


def setting_of(field: attrs.Attribute[Any]) -> Setting | None:
    """The setting of a field; None for a field that is no setting."""
    made = field.metadata.get("setting")
    return None if made is None else made._replace(name=property_name(field.name))


def update_of(field: attrs.Attribute[Any]) -> Update:
    """How a field's setting can be changed."""
    update: Update = field.metadata["update"]
    return update


_KNOWN: Final[dict[type[Any], Mapping[str, Setting]]] = {}


def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """A configuration class's settings, by the names of its fields."""
    if kind not in _KNOWN:
        fields = attrs.fields(kind)
        known = {field.name: setting for field in fields if (setting := setting_of(field)) is not None}
        for setting in known.values():
            parse(setting, setting.default)
        _KNOWN[kind] = known
    return _KNOWN[kind]


class Configuration:
    """What has settings for fields. Making one with a value that breaks its setting's rule raises ValueError.

    One loop checks all fields: a validator for each would be as many more lines of code for attrs to compile whenever
    the class is imported.
    """

    __slots__ = ()

    def __attrs_post_init__(self) -> None:
        for field, setting in settings_of(type(self)).items():
            # Defaults were parsed when the class was first used: a node has a hundred of them.
            if (value := getattr(self, field)) is not setting.default:
                parse(setting, value)


def whole(
    default: int,
    least: int = 1,
    doc: str = "",
    *,
    most: int | None = None,
    kind: ConfigType | None = None,
    update: Update = Update.READ_ONLY,
) -> Any:
    """A field for a whole number from `least` (to `most`)."""
    rule = at_least(least) if most is None else between(least, most)
    return _field(kind or (ConfigType.INT if default <= INT_MAX else ConfigType.LONG), default, rule, doc, update)


def ratio(
    default: float, doc: str = "", *, least: float = 0.0, most: float = 1.0, update: Update = Update.READ_ONLY
) -> Any:
    """A field for a number from `least` to `most`."""
    return _field(ConfigType.DOUBLE, default, between(least, most), doc, update)


def flag(default: bool, doc: str = "", *, update: Update = Update.READ_ONLY) -> Any:
    """A field that is true or false."""
    return _field(ConfigType.BOOLEAN, default, anything, doc, update)


def text(
    default: str,
    doc: str = "",
    *,
    allowed: tuple[str, ...] = (),
    rule: Rule = anything,
    update: Update = Update.READ_ONLY,
) -> Any:
    """A field for a text, one of `allowed` if given."""
    return _field(ConfigType.STRING, default, one_of(*allowed) if allowed else rule, doc, update)


def password(default: str = "", doc: str = "", *, update: Update = Update.READ_ONLY) -> Any:
    """A field for a text that no response and no message shows."""
    return _field(ConfigType.PASSWORD, default, anything, doc, update)


def names(
    default: tuple[str, ...] = (), doc: str = "", *, rule: Rule = anything, update: Update = Update.READ_ONLY
) -> Any:
    """A field for a list of texts, separated by commas."""
    return _field(ConfigType.LIST, default, rule, doc, update)


def _field(kind: ConfigType, default: Any, rule: Rule, doc: str, update: Update) -> Any:
    return attrs.field(default=default, metadata={"setting": Setting("", kind, default, doc, rule), "update": update})


def parse(setting: Setting, given: object) -> Any:
    """A setting's value. Raises ValueError naming the setting, the value and what is allowed."""
    try:
        return setting.parse(given)
    except ValueError as error:
        shown = repr(given) if isinstance(given, str) else given
        raise ValueError(f"{setting.name} is {shown}: {error}") from None
