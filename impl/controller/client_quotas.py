"""Changes of client quotas: which are valid, and the records that write them (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import ClientQuotaRecord

_WHOLE_BITS: Final[Mapping[str, int]] = {PRODUCER_BYTE_RATE: 64, CONSUMER_BYTE_RATE: 64, CONNECTION_CREATION_RATE: 32}
_USER_KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
_IP_KEYS: Final = (CONNECTION_CREATION_RATE,)
QUOTAS: Final = frozenset((*_USER_KEYS, *_IP_KEYS))
"""Of whatever entity."""

Entity = Sequence[tuple[str, str | None]]
"""(type, name) pairs as they come in a request; a name of None is the default."""


class QuotaChange(NamedTuple):
    """A quota to set, or to remove (None)."""

    key: str
    value: float | None


class QuotaAltered(NamedTuple):
    """The outcome of a request; `message` says what is wrong with it."""

    error: ErrorCode = ErrorCode.none
    message: str = ""


def quota_entity(parts: Entity) -> QuotaEntity | str:
    """The entity that a request names, or what is wrong with it."""
    types = [kind for kind, _ in parts]
    if not types:
        return "the entity is empty: name a user, a client-id or an ip"
    if unknown := [kind for kind in types if kind not in ENTITY_TYPES]:
        return f"{unknown[0]!r} is no type of entity; there are {', '.join(ENTITY_TYPES)}"
    if len(set(types)) < len(types):
        return "the entity names a type twice: name each once"
    if IP in types and len(types) > 1:
        return "an ip is an entity by itself: leave user and client-id out"
    if any(name == "" for _, name in parts):
        return "the entity has an empty name: null is the default"
    named = {kind: "" if name is None else name for kind, name in parts}
    if named.get(IP) and not _is_ip_address(named[IP]):
        return f"ip {named[IP]!r} is no IP address: write it as 10.0.0.1 or ::1, or null for the default"
    return QuotaEntity(named.get(USER), named.get(CLIENT_ID), named.get(IP))


def _is_ip_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def quota_problem(entity: QuotaEntity, change: QuotaChange) -> str:
    """What is wrong with a quota; "" when nothing is."""
    if change.value is None:
        return ""  # removing a quota that cannot exist changes nothing
    keys = _USER_KEYS if entity.ip is None else _IP_KEYS
    if change.key not in keys:
        return f"{change.key!r} is no quota of such an entity; there are {', '.join(keys)}"
    if not change.value > 0:
        return f"{change.key}={change.value}: it must be more than 0"
    bits = _WHOLE_BITS.get(change.key)
    if bits is not None and (not change.value.is_integer() or change.value >= 1 << (bits - 1)):
        return f"{change.key}={change.value}: it must be a whole number of {bits} bits"
    return ""


class ClientQuotas:
    """Decides about client quotas."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def alter(
        self, parts: Entity, changes: Sequence[QuotaChange], *, validate_only: bool = False
    ) -> Proposal[QuotaAltered]:
        """Change the quotas of an entity, all or none. Errors: INVALID_REQUEST."""
        decision = Decision(self._image)
        entity = quota_entity(parts)
        if isinstance(entity, str):
            return decision.propose(QuotaAltered(ErrorCode.invalid_request, entity))
        if len({change.key for change in changes}) < len(changes):
            refusal = QuotaAltered(ErrorCode.invalid_request, "a quota is named twice: name each once")
            return decision.propose(refusal)
        for change in changes:
            if problem := quota_problem(entity, change):
                return decision.propose(QuotaAltered(ErrorCode.invalid_request, problem))
        if not validate_only:
            present = self._image.client_quotas.get(entity, {})
            for change in changes:
                if present.get(change.key) != change.value:
                    record = ClientQuotaRecord(entity.user, entity.client_id, entity.ip, change.key, change.value)
                    decision.write(record)
        return decision.propose(QuotaAltered())
