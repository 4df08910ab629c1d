"""Who has which partition, by what members say of themselves."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.impl.client.assignors.subscription import NO_GENERATION, Members, Partition


def claims(members: Members) -> Mapping[Partition, str]:
    """The owner of each partition that has one: who says so of the latest generation counts, unless two do.

    A member that has missed a generation says what it owned before: by now another one may have that.
    """
    latest = max((one.generation for one in members.values()), default=NO_GENERATION)
    owners: dict[Partition, list[str]] = {}
    for member_id, one in members.items():
        if one.generation == latest:
            for partition in one.owned:
                owners.setdefault(partition, []).append(member_id)
    return {partition: those[0] for partition, those in owners.items() if len(those) == 1}
