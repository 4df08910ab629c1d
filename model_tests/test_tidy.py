"""The tree obeys the rules of this project, and each rule can fail."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator

import pytest

from tidegauge.model_tests import tidy
from tidegauge.model_tests.bugs import offsets, transactions
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.tidy import Module, Rule
from tidegauge.spec.registry import REGISTRY

MODULES = tidy.modules()
PAGES = tuple(tidy.documents())

BREAKS: tuple[tuple[Rule, str, str], ...] = (
    (tidy.imports_go_one_way, "spec/x.py", "from impl.partition import replica"),
    (tidy.imports_go_one_way, "spec/x.py", "def f():\n    import linearizability.log"),
    (tidy.imports_go_one_way, "spec/bugs/x.py", "from ...impl import cluster"),
    (tidy.imports_go_one_way, "impl/x.py", "import spec"),
    (tidy.imports_go_one_way, "impl/x.py", "import compilation"),
    (tidy.imports_go_one_way, "compilation/x.py", "from spec.kernel.machine import Machine"),
    (tidy.imports_go_one_way, "impl/x.py", "from model_tests.bugs import kafka_1211"),
    (tidy.imports_go_one_way, "linearizability/x.py", "from spec.kernel.machine import Machine"),
    (tidy.imports_go_one_way, "spark_check/x.py", "from model_tests.harness import campaign"),
    (tidy.imports_go_one_way, "model_tests/harness/x.py", "import tidegauge"),
    (tidy.imports_go_one_way, "tidegauge/x.py", "from model_tests.lockstep import test_cores"),
    (tidy.imports_go_one_way, "tidegauge/x.py", "from model_tests import bugs"),
    (tidy.imports_go_one_way, "model_tests/harness/x.py", "from model_tests.spec import toys"),
    (tidy.imports_go_one_way, "spec/x.py", "if TYPE_CHECKING:\n    from impl.cluster import Cluster"),
    (tidy.packages_of_impl_import_downwards, "impl/records/x.py", "from impl.partition.log import ReplicaLog"),
    (tidy.packages_of_impl_import_downwards, "impl/partition/x.py", "def f():\n    import impl.storage.log"),
    (tidy.packages_of_impl_import_downwards, "impl/controller/x.py", "from ..server.controller import node"),
    (tidy.packages_of_impl_import_downwards, "impl/ports/x.py", "def f():\n    from impl.wire import codecs"),
    (tidy.packages_of_impl_import_downwards, "impl/client/x.py", "from impl.cluster.cluster import Cluster"),
    (tidy.packages_of_impl_import_downwards, "impl/tap/x.py", "from impl.server.transport import connection"),
    (tidy.packages_of_impl_import_downwards, "impl/faults/x.py", "import impl.server.apis.produce"),
    (
        tidy.packages_of_the_server_import_downwards,
        "impl/server/broker/x.py",
        "if TYPE_CHECKING:\n    from tidegauge.impl.server.broker_server import Broker",
    ),
    (
        tidy.packages_of_the_server_import_downwards,
        "impl/server/broker/x.py",
        "from ..apis import produce",
    ),
    (tidy.packages_of_the_server_import_downwards, "impl/server/apis/x.py", "from impl.server.apis import metadata"),
    (tidy.packages_of_the_server_import_downwards, "impl/server/apis/x.py", "import impl.server.broker_server"),
    (tidy.packages_of_the_server_import_downwards, "impl/server/apis/x.py", "from impl.controller import topics"),
    (tidy.packages_of_the_server_import_downwards, "impl/server/broker/x.py", "from impl.controller import configs"),
    (tidy.packages_of_the_server_import_downwards, "impl/server/transport/x.py", "import impl.server.broker.quotas"),
    (
        tidy.packages_of_the_server_import_downwards,
        "impl/server/transport/x.py",
        "def f():\n    from impl.server.apis import fetch",
    ),
    (tidy.packages_of_the_server_import_downwards, "impl/server/controller/x.py", "import impl.server.broker.peers"),
    (tidy.packages_of_the_server_import_downwards, "impl/server/settings/x.py", "from ..transport import states"),
    (tidy.packages_of_the_server_import_downwards, "impl/server/x.py", "from .broker.partition import Partition"),
    (tidy.packages_of_the_server_import_downwards, "impl/server/broker/x.py", "from impl.faults import links"),
    (
        tidy.imports_form_no_circle,
        "impl/server/broker/tasks.py",
        "if TYPE_CHECKING:\n    from tidegauge.impl.server.broker_server import Broker",
    ),
    (
        tidy.imports_form_no_circle,
        "impl/ports/disk.py",
        "def f():\n    from tidegauge.impl.storage.log import Log",
    ),
    (tidy.a_base_names_no_extension, "spec/replication/x.py", "from .extensions.settings import Settings"),
    (tidy.a_base_names_no_extension, "spec/kernel/x.py", "def f():\n    from spec.replication import extensions"),
    (tidy.a_base_names_no_extension, "model_tests/harness/cluster/x.py", "from .extensions import retention"),
    (
        tidy.a_base_names_no_extension,
        "model_tests/harness/cluster/x.py",
        "from spec.replication.extensions.settings import Settings",
    ),
    (tidy.pure_code_imports_no_messages, "impl/controller/x.py", "from impl.wire.apis import ApiKey"),
    (tidy.pure_code_imports_no_messages, "impl/partition/x.py", "import kio.schema.fetch.v12.request"),
    (tidy.pure_code_imports_no_messages, "linearizability/x.py", "if TYPE_CHECKING:\n    import kio.static"),
    (tidy.pure_code_is_deterministic, "spec/x.py", "import time"),
    (tidy.pure_code_is_deterministic, "impl/partition/x.py", "from datetime import datetime"),
    (tidy.pure_code_is_deterministic, "linearizability/x.py", "import random\nrandom.shuffle([])"),
    (tidy.pure_code_is_deterministic, "linearizability/x.py", "from random import shuffle"),
    (tidy.pure_code_is_deterministic, "linearizability/x.py", "import random\nrandom.Random()"),
    (
        tidy.pure_code_is_deterministic,
        "linearizability/x.py",
        "import numpy as np\nnp.random.default_rng()",
    ),
    (tidy.pure_code_is_deterministic, "linearizability/x.py", "import numpy as np\nnp.random.random(3)"),
    (tidy.pure_code_is_deterministic, "impl/server/x.py", "import os\nos.urandom(8)"),
    (tidy.pure_code_is_deterministic, "impl/wire/x.py", "from uuid import uuid4"),
    (tidy.specs_and_cores_touch_nothing_outside, "spec/x.py", "open('trace.jsonl')"),
    (tidy.specs_and_cores_touch_nothing_outside, "impl/partition/x.py", "import trio"),
    (tidy.specs_and_cores_touch_nothing_outside, "impl/records/x.py", "def f():\n    import trio"),
    (tidy.specs_and_cores_touch_nothing_outside, "linearizability/x.py", "import trio"),
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
    (tidy.json_is_read_whole, "spec/x.py", "json.loads(line)"),
    (tidy.json_is_read_whole, "spark_check/x.py", "json.load(file, object_pairs_hook=dict)"),
    (tidy.words_are_the_glossarys, "impl/x.py", "def ans" + "wer(): ..."),
    (tidy.words_are_the_glossarys, "impl/x.py", "class LateAns" + "wer: ..."),
    (tidy.words_are_the_glossarys, "impl/x.py", "x.last_ans" + "wers = ()"),
    (tidy.words_are_the_glossarys, "impl/x.py", "'''The session lap" + "ses.'''"),
    (tidy.words_are_the_glossarys, "impl/x.py", "pass  # Who" + "ever reads this"),
    (tidy.words_are_the_glossarys, "impl/x.py", "raise OSError('nothing was he" + "ard')"),
    (tidy.words_are_the_glossarys, "impl/ho" + "use.py", ""),
    (tidy.words_are_the_glossarys, "impl/x.py", "leader.notes" + "_fetch()"),
)

KEEPS: tuple[tuple[Rule, str, str], ...] = (
    (tidy.imports_go_one_way, "linearizability/x.py", "from compilation.kept_code import compiled_and_kept"),
    (tidy.imports_go_one_way, "spec/bugs/x.py", "from ..replication import Replication\nimport json"),
    (tidy.imports_go_one_way, "tidegauge/x.py", "from model_tests.harness import campaign\nimport spark_check"),
    (tidy.pure_code_is_deterministic, "spec/x.py", "import random\ndef f(seed): random.Random(seed)"),
    (tidy.pure_code_is_deterministic, "impl/ports/x.py", "import time"),
    (tidy.pure_code_is_deterministic, "impl/wire/x.py", "from uuid import UUID"),
    (tidy.pure_code_is_deterministic, "impl/x.py", "'''What time is it?'''\nself.random.choice(x)"),
    (tidy.specs_and_cores_touch_nothing_outside, "impl/server/x.py", "import trio"),
    (tidy.production_code_knows_no_bug, "impl/x.py", "'''Without this rule: a bug.'''\nlog.debug(bugle)"),
    (tidy.production_code_knows_no_bug, "model_tests/bugs/x.py", "from spec.bugs import kafka_1211"),
    (tidy.files_are_short, "spec/x.py", "pass\n" * 600),
    (tidy.modules_say_what_they_are, "spec/__init__.py", ""),
    (tidy.functions_are_short, "spec/x.py", "def f():\n" + "    pass\n" * 69),
    (tidy.lines_are_short, "spec/x.py", f"# {'x' * 118}"),
    (tidy.packages_of_impl_import_downwards, "impl/controller/x.py", "from impl.metadata.image import ClusterImage"),
    (tidy.packages_of_impl_import_downwards, "impl/server/x.py", "from impl.partition import leader"),
    (tidy.packages_of_the_server_import_downwards, "impl/server/apis/x.py", "import impl.server.broker.quotas"),
    (tidy.packages_of_the_server_import_downwards, "impl/server/broker_server.py", "import impl.server.apis.produce"),
    (tidy.imports_form_no_circle, "impl/server/broker/x.py", "import impl.server.broker_server"),
    (tidy.a_base_names_no_extension, "spec/replication/extensions/x.py", "from .settings import Settings"),
    (tidy.a_base_names_no_extension, "spec/registry.py", "from spec.replication.extensions import settings"),
    (tidy.pure_code_imports_no_messages, "impl/controller/x.py", "from kio.schema.errors import ErrorCode"),
    (tidy.pure_code_imports_no_messages, "impl/server/x.py", "import impl.wire.apis"),
    (tidy.json_is_read_whole, "spec/x.py", "json.loads(line, object_pairs_hook=each_name_once)"),
    (tidy.json_is_read_whole, "impl/x.py", "json.loads(line)"),
    (tidy.words_are_the_glossarys, "impl/x.py", "notes = fetch  # households respond"),
)


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_garbage() -> Iterator[None]:
    """Two million nodes of trees live on: to look through them again and again takes a third of the time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def label(value: object) -> str | None:
    return getattr(value, "__name__", None)


@pytest.mark.parametrize("rule", tidy.RULES, ids=label)
def test_the_tree_obeys(rule: Rule) -> None:
    problems = [problem for module in MODULES for problem in rule(module)]
    assert not problems, "\n" + "\n".join(problems)


def test_pages_use_the_words_of_the_glossary() -> None:
    assert tidy.retired(), "the glossary retires nothing"
    problems = [problem for page in PAGES for problem in tidy.words_are_the_glossarys(page)]
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


def test_every_room_of_the_cluster_has_its_tests_in_a_folder_of_its_name() -> None:
    rooms = [path for folder in ("impl", "impl/server") for path in (tidy.ROOT / folder).iterdir() if path.is_dir()]
    names = {path.relative_to(tidy.ROOT / "impl").as_posix() for path in rooms if path.name != "__pycache__"}
    without = {name for name in names if not any((tidy.ROOT / "model_tests" / name).rglob("test_*.py"))}
    assert without == {"server/requests"}, "handlers alone ask for it: server/apis and server/controller test it"


def test_every_bug_of_the_specs_has_its_twin_in_the_cluster() -> None:
    """But those of a machine that no implementation is bound to, and of parts of one that are the harness's."""
    twins = {path.stem for path in (tidy.ROOT / "model_tests" / "bugs").rglob("*.py")}
    unbound = {bug.name for one in REGISTRY if not HARNESS[one.name].sides for bug in one.bugs}
    assert tidy.zoo(), "the zoo is empty"
    without = tidy.zoo() - twins - unbound
    without_a_core = {*offsets.WITHOUT_A_CORE, *transactions.WITHOUT_A_CORE}
    assert without == without_a_core - twins, f"without a twin in model_tests/bugs: {sorted(without)}"


def test_every_bug_overrides_a_rule_of_its_spec() -> None:
    for module in MODULES:
        if module.inside("spec.bugs") and module.name.rpartition(".")[2] in tidy.zoo():
            bodies = [node.body for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef) and node.bases]
            rules = [each.name for body in bodies for each in body if isinstance(each, ast.FunctionDef)]
            assert rules, f"{module.path} overrides no rule of a spec"
