"""The result of a job as one object: for the command line, for a report, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs

from tidegauge.linearizability.check import Verdict
from tidegauge.linearizability.coverage import Totals
from tidegauge.linearizability.plurals import say
from tidegauge.spark_check.checking import MALFORMED
from tidegauge.spark_check.output import Commit, Example, by_kind

EXAMPLES = 3
"""How many examples of each anomaly a summary keeps."""


@attrs.frozen
class Summary:
    """Counts over all histories of a job.

    `verdicts` counts histories by verdict (valid, violated, unknown, malformed), `anomalies` the rows of the anomaly
    table by name, `malformed` the rows set aside, under the first reason of each kind. `covered` and `gaps` say which
    records and ends no read shows (linearizability.coverage). `seconds` is the wall time of
    this run of the job, `kernel_seconds` the sum of the workers' times over all its runs.
    """

    out: str
    level: str
    files: int
    histories: int
    operations: int
    verdicts: dict[str, int]
    anomalies: dict[str, int]
    malformed: dict[str, int]
    examples: tuple[Example, ...]
    covered: Totals
    gaps: tuple[str, ...]
    units: int
    resumed: int
    notes: tuple[str, ...]
    seconds: float
    kernel_seconds: float

    @property
    def exit_status(self) -> int:
        """0: all are valid; 1: some are violated; 2: some rows or histories could not be checked."""
        if self.malformed:
            return 2
        if self.verdicts.get(Verdict.VIOLATED.name.lower()):
            return 1
        return 2 if self.verdicts.get(Verdict.UNKNOWN.name.lower()) else 0

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**attrs.asdict(self), "exit_status": self.exit_status}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Summary:
        """The inverse of `to_json`."""
        fields = {field.name: value[field.name] for field in attrs.fields(cls)}
        fields["examples"] = tuple(
            Example(**{**one, "operations": tuple(one["operations"])}) for one in value["examples"]
        )
        fields["covered"] = Totals(**value["covered"])
        fields["gaps"] = tuple(value["gaps"])
        fields["notes"] = tuple(value["notes"])
        return cls(**fields)

    def lines(self) -> Iterable[str]:
        """As text, line by line."""
        histories = say(self.histories, "history", "histories")
        yield f"{histories}, {say(self.operations, 'operation')}, checked at level {self.level}"
        for name in (*(verdict.name.lower() for verdict in Verdict), MALFORMED):
            if self.verdicts.get(name):
                yield f"  {name:<10} {self.verdicts[name]:>12,}"
        for name, count in sorted(self.anomalies.items()):
            yield f"  {name}: {count:,}"
            for one in (one for one in self.examples if one.anomaly == name):
                of = f" of {one.file}" if self.files > 1 and one.file is not None else ""
                yield f"    history {one.history}{of}, {one.topic}-{one.partition}: {one.witness}"
        for reason, count in sorted(self.malformed.items(), key=lambda item: -item[1]):
            yield f"  malformed rows: {count:,}, as: {reason}"
        yield self.covered.words(self.gaps)
        yield from (f"note: {note}" for note in self.notes)


def summarize(
    commits: Iterable[Commit], *, out: str, level: str, files: int, resumed: int, notes: tuple[str, ...], seconds: float
) -> Summary:
    """Add up the results of the units."""
    verdicts: Counter[str] = Counter()
    anomalies: Counter[str] = Counter()
    malformed: Counter[str] = Counter()
    covered = Totals()
    gaps: list[str] = []
    examples: dict[str, list[Example]] = {}
    histories = operations = units = 0
    kernel_seconds = 0.0
    for one in commits:
        units += 1
        histories += one.histories
        operations += one.operations + one.nameless
        kernel_seconds += one.seconds
        verdicts.update(one.verdicts)
        anomalies.update(one.anomalies)
        malformed.update(one.malformed)
        covered += one.covered
        gaps += one.gaps[: EXAMPLES - len(gaps)]
        for example in one.examples:
            held = examples.setdefault(example.anomaly, [])
            if len(held) < EXAMPLES:
                held.append(example)
    return Summary(
        out=out,
        level=level,
        files=files,
        histories=histories,
        operations=operations,
        verdicts=dict(verdicts),
        anomalies=dict(sorted(anomalies.items())),
        malformed=by_kind(malformed),
        examples=tuple(example for name in sorted(examples) for example in examples[name]),
        covered=covered,
        gaps=tuple(gaps),
        units=units,
        resumed=resumed,
        notes=notes,
        seconds=seconds,
        kernel_seconds=kernel_seconds,
    )
