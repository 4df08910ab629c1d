"""Which way a group with members may go over to the other protocol: `group.consumer.migration.policy`.

It stands apart from the rules, since every broker reads the setting, and few have groups.
"""

from __future__ import annotations

from enum import Enum


class Policy(Enum):
    """`group.consumer.migration.policy`: which way a group with members goes over."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"
