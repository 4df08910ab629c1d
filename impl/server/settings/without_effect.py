"""Settings of Kafka's brokers that mean nothing here: known, checked, kept and described, and nobody reads them.

Operators and tools change them while brokers run; a broker that refused them would stop a roll-out for nothing. Here
are those that Kafka 4.3 changes while it runs: numbers of threads, tiered storage, Kerberos, and Java's own of TLS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tidegauge.impl.metadata.config_types import ConfigType, Rule, Setting, anything, at_least, between
from tidegauge.impl.server.settings.fields import LONG_MAX, Update

_INT, _LONG, _DOUBLE, _TEXT = ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE, ConfigType.STRING
_LIST, _CLASS, _FLAG, _SECRET = ConfigType.LIST, ConfigType.CLASS, ConfigType.BOOLEAN, ConfigType.PASSWORD
_ALL, _ONE, _LISTENER = Update.CLUSTER_WIDE, Update.PER_BROKER, Update.PER_LISTENER

NO_EFFECT: Final = "It has no effect here."


class SettingWithoutEffect(NamedTuple):
    """One of them, and how it can be changed."""

    setting: Setting
    update: Update


def _of(
    update: Update, name: str, kind: ConfigType, default: object, doc: str, rule: Rule = anything
) -> SettingWithoutEffect:
    return SettingWithoutEffect(Setting(name, kind, default, f"{doc} {NO_EFFECT}", rule), update)


def _threads() -> Iterator[SettingWithoutEffect]:
    for name, default, what in (
        ("background.threads", 10, "for background work"),
        ("num.io.threads", 8, "that handle requests"),
        ("num.network.threads", 3, "of a listener that read requests and send responses"),
        ("num.recovery.threads.per.data.dir", 2, "of a log directory that recover logs"),
        ("num.replica.fetchers", 1, "that fetch from one leader"),
    ):
        yield _of(_ALL, name, _INT, default, f"Threads {what}.", at_least(1))


def _tiered_storage() -> Iterator[SettingWithoutEffect]:
    yield _of(
        _ALL,
        "follower.fetch.last.tiered.offset.enable",
        _FLAG,
        False,
        "With tiered storage: whether a new follower begins at the last tiered offset.",
    )
    for name, kind, default in (
        ("remote.fetch.max.wait.ms", _INT, 500),
        ("remote.list.offsets.request.timeout.ms", _LONG, 30_000),
        ("remote.log.index.file.cache.total.size.bytes", _LONG, 1 << 30),
        ("remote.log.manager.copier.thread.pool.size", _INT, 10),
        ("remote.log.manager.copy.max.bytes.per.second", _LONG, LONG_MAX),
        ("remote.log.manager.expiration.thread.pool.size", _INT, 10),
        ("remote.log.manager.fetch.max.bytes.per.second", _LONG, LONG_MAX),
        ("remote.log.manager.follower.thread.pool.size", _INT, 2),
        ("remote.log.reader.threads", _INT, 10),
    ):
        yield _of(_ALL, name, kind, default, "A limit of tiered storage.", at_least(1))


def _sasl() -> Iterator[SettingWithoutEffect]:
    kerberos: tuple[tuple[str, ConfigType, object], ...] = (
        ("sasl.kerberos.kinit.cmd", _TEXT, "/usr/bin/kinit"),
        ("sasl.kerberos.min.time.before.relogin", _LONG, 60_000),
        ("sasl.kerberos.principal.to.local.rules", _LIST, ("DEFAULT",)),
        ("sasl.kerberos.service.name", _TEXT, None),
        ("sasl.kerberos.ticket.renew.jitter", _DOUBLE, 0.05),
        ("sasl.kerberos.ticket.renew.window.factor", _DOUBLE, 0.8),
    )
    for name, kind, default in kerberos:
        yield _of(_ONE, name, kind, default, "A setting of Kerberos.")
    logins: tuple[tuple[str, ConfigType, float, Rule], ...] = (
        ("sasl.login.refresh.buffer.seconds", ConfigType.SHORT, 300, between(0, 3_600)),
        ("sasl.login.refresh.min.period.seconds", ConfigType.SHORT, 60, between(0, 900)),
        ("sasl.login.refresh.window.factor", _DOUBLE, 0.8, between(0.5, 1.0)),
        ("sasl.login.refresh.window.jitter", _DOUBLE, 0.05, between(0.0, 0.25)),
    )
    for name, kind, number, rule in logins:
        yield _of(_ONE, name, kind, number, "When a login with a token is renewed.", rule)
    yield _of(_ONE, "sasl.jaas.config", _SECRET, None, "How the broker itself logs in.")


def _tls() -> Iterator[SettingWithoutEffect]:
    for name, kind, default in (
        ("ssl.engine.factory.class", _CLASS, None),
        ("ssl.keymanager.algorithm", _TEXT, "SunX509"),
        ("ssl.protocol", _TEXT, "TLSv1.3"),
        ("ssl.provider", _TEXT, None),
        ("ssl.secure.random.implementation", _TEXT, None),
        ("ssl.trustmanager.algorithm", _TEXT, "PKIX"),
    ):
        yield _of(_ONE, name, kind, default, "A choice of Java's TLS.")
    for store in ("keystore", "truststore"):
        doc = f"The password of a {store} of Java's; PEM has none."
        yield _of(_LISTENER, f"ssl.{store}.password", _SECRET, None, doc)


def _others() -> Iterator[SettingWithoutEffect]:
    yield _of(_ALL, "config.providers", _LIST, (), "Classes that provide values of settings.")
    for name in ("group.coordinator.cached.buffer.max.bytes", "share.coordinator.cached.buffer.max.bytes"):
        yield _of(_ALL, name, _INT, (1 << 20) + 12, "Bytes of a buffer that a coordinator keeps.", at_least(512 << 10))
    yield _of(
        _ALL, "log.cleaner.io.buffer.size", _INT, 512 << 10, "Bytes of the buffers of all cleaner threads.", at_least(0)
    )
    reporter = "org.apache.kafka.common.metrics.JmxReporter"
    yield _of(_ALL, "metric.reporters", _LIST, (reporter,), "Classes that report metrics.")
    builder = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    yield _of(_ONE, "principal.builder.class", _CLASS, builder, "The class that says who a connection belongs to.")


WITHOUT_EFFECT: Final[Mapping[str, SettingWithoutEffect]] = {
    one.setting.name: one for family in (_threads(), _tiered_storage(), _sasl(), _tls(), _others()) for one in family
}
"""By name."""
