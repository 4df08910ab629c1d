"""What a broker checks of a change of brokers' settings before the controller decides (KIP-226).

The controller knows which settings there are and what values they take; only the broker knows what it was started with.
A number of threads is at most doubled or halved by one change. A broker that runs keeps its listeners and what they
speak. What a TLS listener would show has to be a key and its certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from tidegauge.impl.metadata.broker_configs import name_without_listener
from tidegauge.impl.metadata.config_resources import ALL_BROKERS
from tidegauge.impl.metadata.config_types import split_list
from tidegauge.impl.server.settings.server_config import DYNAMIC_CONFIGS
from tidegauge.impl.server.settings.sources import ConfigSource, Place, Sources

THREADS: Final = frozenset(
    {
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    }
)


@attrs.frozen
class ConfigChanges:
    """The settings that a request changes for one broker, or for all."""

    sources: Sources
    resource: str
    values: Mapping[str, str | None]
    """None is a setting that is deleted."""

    def error(self, tls_error: Callable[[Mapping[str, str]], str], listening: Mapping[str, str]) -> str:
        """What is wrong with them at this broker; "" when nothing is.

        `tls_error` says the same of the settings of listeners, and `listening` has what is set for them now.
        """
        for name in self.values:
            if (wrong := self._error(name)) != "":
                return wrong
        if all(name_without_listener(name) == name for name in self.values):
            return ""
        after = {**listening, **self.values}
        return tls_error({name: text for name, text in after.items() if text is not None})

    def _error(self, name: str) -> str:
        setting = DYNAMIC_CONFIGS.find(name)
        if setting is None:
            return ""  # the controller says so
        places = list(self.sources.of_broker(setting))
        try:
            now, after = setting.parse(places[0].value), setting.parse(self._after(name, places).value)
        except ValueError:
            return ""  # the controller says so
        if name_without_listener(name) in THREADS and not now // 2 <= after <= now * 2:
            return f"{name}={after}: it is {now} now; one change halves or doubles it at most"
        if name == "listeners" and set(after) != set(now):
            return f"listeners={','.join(after)}: a broker that runs keeps {','.join(now)}; restart it with others"
        if name == "listener.security.protocol.map":
            names = {endpoint.partition(":")[0] for endpoint in split_list(self._listeners())}
            kept = {part for part in now if part.partition(":")[0] in names}
            if not kept <= set(after):
                return f"{name}={','.join(after)}: listeners of a broker that runs keep {','.join(sorted(kept))}"
        return ""

    def _listeners(self) -> str:
        setting = DYNAMIC_CONFIGS.settings["listeners"]
        return next(self.sources.of_broker(setting)).value or ""

    def _after(self, name: str, places: list[Place]) -> Place:
        """The place that gives the value once the change is made."""
        source = ConfigSource.ALL_BROKERS if self.resource == ALL_BROKERS else ConfigSource.BROKER
        others = [place for place in places if (place.name, place.source) != (name, source)]
        text = self.values[name]
        if text is not None:
            others.append(Place(name, text, source))
        return min(others, key=lambda place: (place.name != name, place.source))
