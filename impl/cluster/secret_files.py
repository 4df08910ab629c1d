"""Where the processes of one cluster get its secret from: a file, or the environment.

It is never on a command line, which every user of the machine can read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidegauge.impl.ports.randomness import SystemRandomness
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret

SECRET_VARIABLE: Final = "TIDEGAUGE_CLUSTER_SECRET"
SECRET_FILE: Final = "cluster.secret"
"""The file that a controller writes in its directory when it is given no secret."""
OTHERS: Final = 0o077


class NoSecretYetError(ValueError):
    """The file of the secret is not there, or is empty: a controller may be about to write it."""


def given_secret(file: Path | None, environment: Mapping[str, str]) -> ClusterSecret | None:
    """The secret of a file, else of the environment; None when there is neither.

    Raises ValueError for a file that cannot be read or that others can read, and for a secret that is too short:
    NoSecretYetError for a file that is not written yet.
    """
    if file is not None:
        return read_secret(file)
    text = environment.get(SECRET_VARIABLE)
    if text is None:
        return None
    try:
        return ClusterSecret(text.strip())
    except ValueError as error:
        raise ValueError(f"{SECRET_VARIABLE}: {error}") from None


def read_secret(file: Path) -> ClusterSecret:
    """The secret of a file. Raises ValueError as `given_secret` does."""
    try:
        mode, text = file.stat().st_mode, file.read_text("utf-8")
    except FileNotFoundError as error:
        raise NoSecretYetError(
            f"the cluster's secret cannot be read: {error}; a controller that is given none writes {SECRET_FILE} in "
            "its directory: start it"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the cluster's secret cannot be read: {error}") from None
    if mode & OTHERS:
        raise ValueError(f"{file} can be read by others (mode {mode & 0o777:o}): chmod 600 {file}")
    try:
        return ClusterSecret(text.strip())
    except ValueError as error:
        kind = ValueError if text.strip() else NoSecretYetError
        raise kind(f"{file}: {error}") from None


def kept_secret(directory: Path) -> ClusterSecret:
    """The secret in a controller's directory; a new one is written when there is none. Raises ValueError, OSError."""
    file = directory / SECRET_FILE
    if not file.exists():
        secret = ClusterSecret.generate(SystemRandomness())
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(f"{secret.text}\n")
        return secret
    return read_secret(file)
