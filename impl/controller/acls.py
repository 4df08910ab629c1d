"""The controller's part in ACLs: what may be added, what is removed, and the records that say so."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.impl.controller.state import ControllerState
from tidegauge.impl.metadata.access import (
    Acl,
    AclFilter,
    acl_error,
)
from tidegauge.impl.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord


class Acls(ControllerState):
    """ACLs are created and deleted here, and are in force at a broker once it has read of them."""

    def create_acls(self, acls: Sequence[Acl]) -> list[str]:
        """Add ACLs; what is wrong with each, in words, "" for those that are in force from now on.

        One that is there already stays as it is.
        """
        refusals = [acl_error(acl) for acl in acls]
        for acl, refusal in zip(acls, refusals, strict=True):
            if not refusal and acl not in self.image.acls:
                self._write(AccessControlEntryRecord(*_fields(acl)))
        self._commit()
        return refusals

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Remove the ACLs that filters mean; by filter, those that it meant when the request came."""
        found = [self.image.acls.find(wanted) for wanted in filters]
        for acl in dict.fromkeys(acl for some in found for acl in some):
            self._write(RemoveAccessControlEntryRecord(*_fields(acl)))
        self._commit()
        return found


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
