"""Changes of ACLs: which are valid, which match a filter, and the records that write them (KIP-140)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.metadata.access import (
    Acl,
    AclFilter,
    acl_error,
)
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord


class Acls:
    """Decides about ACLs; a broker enforces one once it has applied its record."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def create(self, acls: Sequence[Acl]) -> Proposal[list[str]]:
        """Add ACLs; the response says what is wrong with each, "" for the valid ones, which are written.

        An ACL that is there already is not written again.
        """
        decision = Decision(self._image)
        refusals = [acl_error(acl) for acl in acls]
        for acl, refusal in zip(acls, refusals, strict=True):
            if not refusal and acl not in decision.image.acls:
                decision.write(AccessControlEntryRecord(*_fields(acl)))
        return decision.propose(refusals)

    def delete(self, filters: Sequence[AclFilter]) -> Proposal[list[list[Acl]]]:
        """Remove the ACLs that match filters; the response lists them by filter."""
        decision = Decision(self._image)
        found = [self._image.acls.find(wanted) for wanted in filters]
        self._remove(decision, (acl for some in found for acl in some))
        return decision.propose(found)

    def remove(self, acls: Iterable[Acl]) -> Proposal[list[Acl]]:
        """Remove those of these ACLs that are there; the response lists them."""
        decision = Decision(self._image)
        return decision.propose(self._remove(decision, acls))

    def _remove(self, decision: Decision, acls: Iterable[Acl]) -> list[Acl]:
        there = [acl for acl in dict.fromkeys(acls) if acl in self._image.acls]
        for acl in there:
            decision.write(RemoveAccessControlEntryRecord(*_fields(acl)))
        return there


def _fields(acl: Acl) -> tuple[int, str, int, str, str, int, int]:
    return (
        int(acl.resource_type),
        acl.resource_name,
        int(acl.pattern_type),
        acl.principal,
        acl.host,
        int(acl.operation),
        int(acl.permission),
    )
