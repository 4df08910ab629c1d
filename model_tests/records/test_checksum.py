"""CRC32-C is imported without the command line of its package, and is the package's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidegauge.impl.records import checksum

KNOWN = 0xE3069283
"""The check value of CRC-32C: of the digits from 1 to 9."""


def test_the_checksum_is_crc32c_and_goes_on_where_another_ended() -> None:
    assert checksum.crc32c(b"123456789") == KNOWN
    assert checksum.crc32c(b"56789", checksum.crc32c(b"1234")) == KNOWN


@pytest.mark.parametrize("first", ["crc32c", "tidegauge.impl.records.checksum"])
def test_the_package_may_be_imported_before_or_after(first: str) -> None:
    program = (
        f"import {first}, crc32c; from tidegauge.impl.records import checksum; "
        "print(crc32c.crc32c(b'123456789') == checksum.crc32c(b'123456789'), crc32c.CRC32CHash.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["True", "CRC32CHash"], done.stderr


def test_an_extension_of_another_name_is_had_from_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "EXTENSION", "crc32c._of_another_release")
    assert checksum.load_extension().__name__ == "crc32c"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "EXTENSION", "no_such_package._crc32c")
    monkeypatch.setitem(sys.modules, "crc32c", None)
    with pytest.raises(ImportError, match="crc32c"):
        checksum.load_extension()
