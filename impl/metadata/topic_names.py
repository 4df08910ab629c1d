"""Names of topics: which ones are legal, which are internal, and that of the metadata log."""

from __future__ import annotations

from typing import Final

METADATA_TOPIC: Final = "__cluster_metadata"
"""The topic whose partition 0 is the metadata log (KIP-595); it cannot be created."""
METADATA_TOPIC_ID: Final = "00000000-0000-0000-0000-000000000001"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})
"""The topics of coordinators; brokers write to them, clients must not."""
LONGEST_NAME: Final = 249
"""Characters of a topic name: file names have at most 255, and "-" and the partition follow."""


def is_topic_name(name: str) -> bool:
    """Kafka's rule: 1 to 249 ASCII letters, digits, ".", "_" and "-", and neither "." nor ".."."""
    legal = all(character.isascii() and (character.isalnum() or character in "._-") for character in name)
    return legal and 0 < len(name) <= LONGEST_NAME and name not in (".", "..")
