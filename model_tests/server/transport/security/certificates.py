"""Certificates for tests: an authority, a server on the loopback interface, and clients with names."""

from __future__ import annotations

from functools import cached_property

import trustme


class Authority:
    """A certificate authority. Everything is PEM."""

    def __init__(self) -> None:
        self._ca = trustme.CA(key_type=trustme.KeyType.ECDSA)

    @cached_property
    def certificate(self) -> str:
        """Its own certificate."""
        return self._ca.cert_pem.bytes().decode()

    @cached_property
    def server(self) -> tuple[str, str]:
        """(certificate chain, private key) of a server at 127.0.0.1 and localhost."""
        return self.issue("localhost", "127.0.0.1", common_name="broker")

    def issue(self, *identities: str, common_name: str, unit: str | None = None) -> tuple[str, str]:
        """(certificate chain, private key) for these identities."""
        issued = self._ca.issue_cert(
            *identities,
            common_name=common_name,
            organization_name="Orders, Inc.",
            organization_unit_name=unit or "tests",
            key_type=trustme.KeyType.ECDSA,
        )
        chain = "".join(part.bytes().decode() for part in issued.cert_chain_pems)
        return chain, issued.private_key_pem.bytes().decode()
