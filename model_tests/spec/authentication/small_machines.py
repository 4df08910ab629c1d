"""Machines of authentication that are small enough to visit every state, for their own tests and for the gate's."""

from __future__ import annotations

from tidegauge.spec.authentication.machine import Authentication

MACHINES = [Authentication(), Authentication(lifetime=1), Authentication(lifetime=0), Authentication(users=1)]
