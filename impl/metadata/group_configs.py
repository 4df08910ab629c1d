"""Group settings under Kafka's names: which there are, what their values may be, and by which brokers' settings.

The table is Kafka 4.3's (KIP-848, KIP-932, KIP-1071). A group that does not set one takes the brokers' setting of the
same meaning: `group.consumer.session.timeout.ms` for `consumer.session.timeout.ms`. What a group sets lies within the
brokers' bounds, `group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tidegauge.impl.metadata.config_types import ConfigType, Rule, Setting, anything, at_least, one_of

_DURATION: Final = re.compile(r"P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:[.,]\d{0,9})?S)?)?", re.IGNORECASE)


class GroupSetting(NamedTuple):
    """One setting of a group, and the brokers' settings that it depends on; "" is none."""

    setting: Setting
    default: str = ""
    """What it is where the group sets nothing."""
    least: str = ""
    most: str = ""

    def brokers_settings(self, least: int, most: int) -> Iterator[Setting]:
        """The brokers' settings themselves, with Kafka's defaults."""
        words = {
            self.default: (self.setting.default, self.setting.documentation),
            self.least: (least, f"The least {self.setting.name} that a group may set."),
            self.most: (most, f"The largest {self.setting.name} that a group may set."),
        }
        for name, (default, documentation) in words.items():
            if name:
                yield Setting(name, ConfigType.INT, default, documentation, self.setting.rule)


def _offset_reset(value: str) -> None:
    kind, colon, duration = value.partition(":")
    if value not in ("latest", "earliest") and not (
        kind == "by_duration" and colon and _DURATION.fullmatch(duration) is not None
    ):
        raise ValueError("it must be latest, earliest, or by_duration: and a duration such as P1DT2H3M4.5S")


def _bounded(name: str, default: int, rule: Rule, documentation: str, *, most: str = "") -> GroupSetting:
    """A number that brokers have a default and bounds for."""
    family, _, rest = name.partition(".")
    setting = Setting(name, ConfigType.INT, default, documentation, rule)
    least = "" if most else f"group.{family}.min.{rest}"
    return GroupSetting(setting, f"group.{name}", least, most or f"group.{family}.max.{rest}")


def _members(family: str) -> Iterator[tuple[GroupSetting, int, int]]:
    """What groups of every protocol have: the setting, and the brokers' bounds by default."""
    yield (
        _bounded(
            f"{family}.session.timeout.ms",
            45_000,
            at_least(1),
            f"How long a member of a {family} group may be silent before it is taken out of the group.",
        ),
        45_000,
        60_000,
    )
    yield (
        _bounded(
            f"{family}.heartbeat.interval.ms",
            5_000,
            at_least(1),
            f"How often members of a {family} group are told to send a heartbeat.",
        ),
        5_000,
        15_000,
    )
    yield (
        _bounded(
            f"{family}.assignment.interval.ms",
            1_000,
            at_least(0),
            f"The least time between two assignments of a {family} group.",
        ),
        0,
        15_000,
    )


_BOUNDED: Final = (
    *_members("consumer"),
    *_members("share"),
    (
        _bounded(
            "share.record.lock.duration.ms",
            30_000,
            at_least(1_000),
            "How long a record is locked for the member of a share group that has it.",
        ),
        15_000,
        60_000,
    ),
    (
        _bounded("share.delivery.count.limit", 5, at_least(2), "How often a share group is given one record at most."),
        2,
        10,
    ),
    (
        _bounded(
            "share.partition.max.record.locks",
            2_000,
            at_least(100),
            "The most records of one partition that a share group has locked at a time.",
        ),
        100,
        4_000,
    ),
    *_members("streams"),
    (
        _bounded(
            "streams.num.standby.replicas",
            0,
            at_least(0),
            "Standby replicas of each task of a streams group.",
            most="group.streams.max.standby.replicas",
        ),
        0,
        2,
    ),
)


def _other(name: str, kind: ConfigType, default: object, rule: Rule, documentation: str) -> GroupSetting:
    return GroupSetting(Setting(name, kind, default, documentation, rule))


_DELAY: Final = GroupSetting(
    Setting(
        "streams.initial.rebalance.delay.ms",
        ConfigType.INT,
        3_000,
        "How long the first assignment of a streams group waits for more members.",
        at_least(0),
    ),
    "group.streams.initial.rebalance.delay.ms",
)

_OTHERS: Final = (
    _other(
        "share.auto.offset.reset",
        ConfigType.STRING,
        "latest",
        _offset_reset,
        "Where a share group begins to read a partition.",
    ),
    _other(
        "share.isolation.level",
        ConfigType.STRING,
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
        "Whether a share group gets records of transactions that are not committed.",
    ),
    _other(
        "share.renew.acknowledge.enable",
        ConfigType.BOOLEAN,
        True,
        anything,
        "Whether members of a share group may renew the lock of a record.",
    ),
    _DELAY,
)

GROUP_CONFIGS: Final[Mapping[str, GroupSetting]] = {
    one.setting.name: one
    for one in sorted(
        (*(bounded for bounded, _, _ in _BOUNDED), *_OTHERS),
        key=lambda one: one.setting.name,
    )
}
"""Every setting of a group."""

GROUP_BROKER_CONFIGS: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for one, least, most in (*_BOUNDED, (_DELAY, 0, 0))
    for setting in one.brokers_settings(least, most)
}
"""Brokers' settings of groups' defaults and of their bounds."""

DEFAULT_GROUP_SETTINGS: Final[Mapping[str, int]] = {
    name: setting.default for name, setting in GROUP_BROKER_CONFIGS.items()
}
"""Their values where nothing is configured."""


def group_default(name: str, brokers: Mapping[str, int]) -> object:
    """The value of a setting that a group does not set; `brokers` has all of `GROUP_BROKER_CONFIGS`."""
    one = GROUP_CONFIGS[name]
    return brokers[one.default] if one.default else one.setting.default


def group_config_error(configs: Mapping[str, str], brokers: Mapping[str, int]) -> str:
    """What is wrong with a group's settings; "" when nothing is."""
    values = {name: group_default(name, brokers) for name in GROUP_CONFIGS}
    for name, text in configs.items():
        if name not in GROUP_CONFIGS:
            return f"{name!r} is no group setting; there are {', '.join(GROUP_CONFIGS)}"
        try:
            values[name] = GROUP_CONFIGS[name].setting.parse(text)
        except ValueError as error:
            return f"{name}={text!r}: {error}"
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    return next(_out_of_bounds(numbers, brokers), "")


def brokers_group_settings_error(brokers: Mapping[str, int]) -> str:
    """What is wrong with brokers' own defaults and bounds; "" when nothing is."""
    numbers = {name: brokers[one.default] for name, one in GROUP_CONFIGS.items() if one.default}
    return next(_out_of_bounds(numbers, brokers, "group."), "")


def _out_of_bounds(values: Mapping[str, int], brokers: Mapping[str, int], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        one = GROUP_CONFIGS[name]
        if one.least and value < brokers[one.least]:
            yield f"{prefix}{name}={value}: it must be at least {brokers[one.least]}, the brokers' {one.least}"
        if one.most and value > brokers[one.most]:
            yield f"{prefix}{name}={value}: it must be at most {brokers[one.most]}, the brokers' {one.most}"
    for family in ("consumer", "share", "streams"):
        session, heartbeat = f"{family}.session.timeout.ms", f"{family}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            yield (
                f"{prefix}{session}={values[session]}: it must be more than "
                f"{prefix}{heartbeat}={values[heartbeat]}, or members are taken out between two heartbeats"
            )
