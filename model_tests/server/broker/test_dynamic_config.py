"""A broker's dynamic settings (KIP-226): which of the metadata's settings count for which broker."""

from __future__ import annotations

import pytest

from tidegauge.impl.metadata.config_resources import ALL_BROKERS
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import BrokerConfigRecord
from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
from tidegauge.impl.server.settings.server_config import ServerConfig

NAME = "max.connections"


def image(**of: str) -> ClusterImage:
    """The metadata with the setting of every broker (`all`) or of broker 0 or 1 (`b0`, `b1`)."""
    made = ClusterImage()
    for key, value in of.items():
        made.apply(BrokerConfigRecord(ALL_BROKERS if key == "all" else key[1:], NAME, value))
    return made


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (image(), 7),
        (image(all="5"), 5),
        (image(b0="3"), 3),
        (image(all="5", b0="3"), 3),
        (image(b0="3", all="5"), 3),
        (image(b1="3"), 7),
    ],
)
def test_a_setting_of_one_broker_wins_over_that_of_all(metadata: ClusterImage, expected: int) -> None:
    config = DynamicConfig(0, ServerConfig(max_connections=7))
    assert config.apply(metadata) is (expected != 7)
    assert config.current.max_connections == expected


def test_a_setting_that_is_deleted_is_that_of_the_start_again() -> None:
    config = DynamicConfig(0, ServerConfig(max_connections=7))
    config.apply(image(all="5"))
    assert not config.apply(image(all="5")), "nothing has changed"
    assert config.apply(image())
    assert config.current.max_connections == 7
