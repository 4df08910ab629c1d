"""What every benchmark does with its options, before it measures anything."""

from __future__ import annotations

from importlib import import_module

import pytest

from tidegauge.model_tests.tidy import ROOT

BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "options")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_prints_its_docstring_for_help_and_refuses_what_it_does_not_know(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = import_module(f"benchmarks.{name}")
    with pytest.raises(SystemExit) as helped:
        benchmark.main(["--help"])
    printed = capsys.readouterr().out
    assert helped.value.code == 0
    assert str(benchmark.__doc__).strip() in printed
    assert f"usage: python -m benchmarks.{name} " in printed
    for unknown in ("--qick", "--no-such-option"):
        with pytest.raises(SystemExit) as refused:
            benchmark.main([unknown])
        assert refused.value.code == 2
        assert f"unrecognized arguments: {unknown}" in capsys.readouterr().err
