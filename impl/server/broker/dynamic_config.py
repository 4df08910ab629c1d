"""A broker's settings as they are now: those of its start, with those that were changed since (KIP-226).

The metadata hold settings for every broker and settings for one broker; the latter win.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tidegauge.impl.metadata.broker_configs import name_without_listener
from tidegauge.impl.metadata.config_resources import ALL_BROKERS
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.server.settings.server_config import ServerConfig, with_dynamic


class DynamicConfig:
    """The settings of one broker. A reader of one that may change reads `current` each time."""

    def __init__(self, broker_id: int, initial: ServerConfig) -> None:
        self._broker_id = broker_id
        self.initial = initial
        """The settings of its start."""
        self._changed: Mapping[str, str] = {}
        self.current = initial

    @property
    def of_listeners(self) -> Mapping[str, str]:
        """Those that were changed for one listener."""
        return {name: text for name, text in self._changed.items() if name_without_listener(name) != name}

    def of_now(self) -> ServerConfig:
        """What counts on listeners: the settings of its start, with those that were changed for one listener since."""
        if self.current.properties == self.initial.properties:
            return self.initial
        return attrs.evolve(self.initial, properties=self.current.properties)

    def apply(self, image: ClusterImage) -> bool:
        """Bring the settings of the metadata into force; True when there is a difference."""
        configs = image.broker_configs
        changed = {**configs.get(ALL_BROKERS, {}), **configs.get(str(self._broker_id), {})}
        if changed == self._changed:
            return False
        self._changed = changed
        self.current = with_dynamic(self.initial, changed)
        return True
