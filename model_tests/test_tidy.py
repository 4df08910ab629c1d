"""The tree obeys the rules of the house, and each rule can fail."""

from __future__ import annotations

import ast

import pytest

from tidegauge.model_tests import tidy
from tidegauge.model_tests.tidy import Module, Rule

MODULES = tuple(tidy.tree())

BREAKS: tuple[tuple[Rule, str, str], ...] = (
    (tidy.imports_go_one_way, "spec/x.py", "from impl.partition import replica"),
    (tidy.imports_go_one_way, "spec/x.py", "def f():\n    import linearizability.log"),
    (tidy.imports_go_one_way, "spec/bugs/x.py", "from ...impl import cluster"),
    (tidy.imports_go_one_way, "impl/x.py", "import spec"),
    (tidy.imports_go_one_way, "impl/x.py", "from model_tests.bugs import kafka_1211"),
    (tidy.imports_go_one_way, "linearizability/x.py", "from spec.kernel.machine import Machine"),
    (tidy.imports_go_one_way, "spark_check/x.py", "from model_tests.harness import campaign"),
    (tidy.imports_go_one_way, "model_tests/harness/x.py", "import tidegauge"),
    (tidy.imports_go_one_way, "tidegauge/x.py", "from model_tests.lockstep import test_cores"),
    (tidy.imports_go_one_way, "tidegauge/x.py", "from model_tests import bugs"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "spec/x.py", "import time"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "impl/partition/x.py", "from datetime import datetime"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "linearizability/x.py", "import random\nrandom.shuffle([])"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "linearizability/x.py", "from random import shuffle"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "linearizability/x.py", "import random\nrandom.Random()"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "linearizability/x.py", "import numpy as np\nnp.random.default_rng()"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "linearizability/x.py", "import numpy as np\nnp.random.random(3)"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "impl/server/x.py", "import os\nos.urandom(8)"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "impl/wire/x.py", "from uuid import uuid4"),
    (tidy.specs_and_cores_touch_nothing_outside, "spec/x.py", "open('trace.jsonl')"),
    (tidy.specs_and_cores_touch_nothing_outside, "impl/partition/x.py", "import trio"),
    (tidy.specs_and_cores_touch_nothing_outside, "impl/controller/x.py", "print('elected')"),
    (tidy.production_code_knows_no_bug, "impl/x.py", "from spec.bugs import kafka_1211"),
    (tidy.production_code_knows_no_bug, "impl/x.py", "def append(self, bug=None): ..."),
    (tidy.production_code_knows_no_bug, "impl/x.py", "if self.enabled_bugs: pass"),
    (tidy.production_code_knows_no_bug, "impl/x.py", "class BuggyReplica: ..."),
    (tidy.files_are_short, "spec/x.py", "pass\n" * 601),
    (tidy.functions_are_short, "spec/x.py", "def f():\n" + "    pass\n" * 70),
    (tidy.functions_are_short, "spec/x.py", "async def f():\n" + "    pass\n" * 70),
    (tidy.lines_are_short, "spec/x.py", f"# {'x' * 119}"),
    (tidy.modules_are_named_after_what_they_do, "spec/utils.py", ""),
    (tidy.modules_are_named_after_what_they_do, "impl/common/x.py", ""),
    (tidy.modules_say_what_they_are, "spec/x.py", "x = 1"),
    (tidy.nothing_is_left_unfinished, "spec/x.py", "pass  # TO" + "DO: the rest"),
)

KEEPS: tuple[tuple[Rule, str, str], ...] = (
    (tidy.imports_go_one_way, "spec/bugs/x.py", "from ..replication import Replication\nimport json"),
    (tidy.imports_go_one_way, "tidegauge/x.py", "from model_tests.harness import campaign\nimport spark_check"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "spec/x.py", "import random\ndef f(seed): random.Random(seed)"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "impl/ports/x.py", "import time"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "impl/wire/x.py", "from uuid import UUID"),
    (tidy.pure_rooms_have_no_clock_and_no_dice, "impl/x.py", "'''What time is it?'''\nself.random.choice(x)"),
    (tidy.specs_and_cores_touch_nothing_outside, "impl/server/x.py", "import trio"),
    (tidy.production_code_knows_no_bug, "impl/x.py", "'''Without this rule: a bug.'''\nlog.debug(bugle)"),
    (tidy.production_code_knows_no_bug, "model_tests/bugs/x.py", "from spec.bugs import kafka_1211"),
    (tidy.files_are_short, "spec/x.py", "pass\n" * 600),
    (tidy.modules_say_what_they_are, "spec/__init__.py", ""),
    (tidy.functions_are_short, "spec/x.py", "def f():\n" + "    pass\n" * 69),
    (tidy.lines_are_short, "spec/x.py", f"# {'x' * 118}"),
)


def label(value: object) -> str | None:
    return getattr(value, "__name__", None)


@pytest.mark.parametrize("rule", tidy.RULES, ids=label)
def test_the_tree_obeys(rule: Rule) -> None:
    problems = [problem for module in MODULES for problem in rule(module)]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(("rule", "path", "source"), BREAKS)
def test_the_rule_catches(rule: Rule, path: str, source: str) -> None:
    assert list(rule(Module(path, source)))


@pytest.mark.parametrize(("rule", "path", "source"), KEEPS)
def test_the_rule_lets_pass(rule: Rule, path: str, source: str) -> None:
    assert not list(rule(Module(path, source)))


def test_every_rule_has_been_seen_to_fail() -> None:
    assert {rule for rule, _, _ in BREAKS} == set(tidy.RULES)


def test_the_rules_see_every_room() -> None:
    seen = {module.path.split("/")[0] for module in MODULES}
    assert {"spec", "impl", "linearizability", "spark_check", "model_tests", "tidegauge"} <= seen


def test_every_bug_of_the_specs_has_its_twin_in_the_cluster() -> None:
    twins = {path.stem for path in (tidy.ROOT / "model_tests" / "bugs").rglob("*.py")}
    assert tidy.zoo(), "the zoo is empty"
    assert tidy.zoo() <= twins, f"without a twin in model_tests/bugs: {sorted(tidy.zoo() - twins)}"


def test_every_bug_overrides_a_rule_of_its_spec() -> None:
    for module in MODULES:
        if module.inside("spec.bugs") and module.name.rpartition(".")[2] in tidy.zoo():
            bodies = [node.body for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef) and node.bases]
            rules = [each.name for body in bodies for each in body if isinstance(each, ast.FunctionDef)]
            assert rules, f"{module.path} overrides no rule of a spec"
