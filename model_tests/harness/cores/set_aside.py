"""The files of a log that were set aside: each has a name that says what it was, and nobody changes it again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from tidegauge.spec.kernel.changes import Change

_FILE: Final = r"\d{20}\.(?:log|index|timeindex|txnindex)"
_NAMES: Final = re.compile(
    rf"(?P<whole>{_FILE})(?:\.stray(?:\.(?P<stray>\d+))?|(?:\.damaged)+)"
    r"|(?P<cut>\d{20}\.log)\.from-(?P<position>\d+)\.damaged(?:\.(?P<number>\d+))?"
)
_IS_ASIDE: Final = re.compile(r"\.(stray|damaged)(\.|$)")


@attrs.define
class SetAside:
    """What lies beside one log, and what it held before."""

    files: dict[str, bytes] = attrs.field(factory=dict)

    def differences(self, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[Change]:
        """What has become of the files of a directory in one step, by their names."""
        aside = {name: content for name, content in after.items() if _IS_ASIDE.search(name)}
        for name, content in self.files.items():
            if aside.get(name) != content:
                yield Change(f"set aside: {name}", len(content), len(aside[name]) if name in aside else "gone")
        for name in sorted(aside.keys() - self.files.keys()):
            known = _NAMES.fullmatch(name)
            if known is None:
                yield Change("set aside", "a name that says what it was", name)
                continue
            yield from self._new(name, known, before, after)
        self.files = aside

    def _new(
        self, name: str, known: re.Match[str], before: Mapping[str, bytes], after: Mapping[str, bytes]
    ) -> Iterator[Change]:
        position = int(known["position"] or 0)
        if known["cut"] and not after[name]:
            yield Change("set aside", "what there is", f"nothing, as {name}")
        was = before.get(known["whole"] or known["cut"], b"")[position:]
        is_made_anew = ".txnindex" in name  # where the log was read by a recovery point that was rejected
        if after[name] != was and not is_made_anew:
            yield Change(f"set aside: {name}", len(was), len(after[name]))
        if known["cut"] and len(after.get(known["cut"], b"")) not in (0, position):
            yield Change(f"what is left of {known['cut']}", position, len(after[known["cut"]]))
        number = int(known["stray"] or known["number"] or 0)
        stem = name.removesuffix(f".{number}") if number else name
        free = [stem + (f".{one}" if one else "") for one in range(number)]
        missing = [one for one in free if one not in after]
        if missing:
            yield Change("set aside", missing[0], name)
