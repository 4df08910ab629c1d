"""A cluster of processes on this machine that can be killed with SIGKILL and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tidegauge.model_tests.cluster.processes.node import CONFIG_VARIABLE, CONTROLLER, HOST


class Processes:
    """A controller and brokers, each a process with a directory of its own. Use it as `with`."""

    def __init__(self, root: Path, brokers: int, config: Mapping[str, Any]) -> None:
        self.root = root
        self.brokers = brokers
        self._environment = {**os.environ, CONFIG_VARIABLE: json.dumps(dict(config))}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._ports: dict[str, int] = {}

    def __enter__(self) -> Processes:
        self._launch(CONTROLLER)
        self._wait(CONTROLLER)
        for broker in range(self.brokers):
            self._launch(str(broker))
        for broker in range(self.brokers):
            self._wait(str(broker))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.communicate()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self._ports[str(broker)]}" for broker in range(self.brokers))

    def directory(self, broker: int) -> Path:
        return self.root / str(broker)

    def kill(self, broker: int) -> None:
        """SIGKILL: the process has no say in it."""
        process = self._processes[str(broker)]
        process.kill()
        process.communicate()

    def stop(self, broker: int) -> None:
        """SIGTERM: a clean shutdown."""
        process = self._processes[str(broker)]
        process.send_signal(signal.SIGTERM)
        _, complaint = process.communicate()
        assert process.returncode == 0, complaint

    def start(self, broker: int) -> None:
        """Start a broker again, where it listened before."""
        self._launch(str(broker))
        self._wait(str(broker))

    def _launch(self, role: str) -> None:
        command = [sys.executable, "-m", "tidegauge.model_tests.cluster.processes.node", role, str(self.root / role)]
        command += [str(self._ports.get(role, 0)), str(self._ports.get(CONTROLLER, 0))]
        self._processes[role] = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _wait(self, role: str) -> None:
        process = self._processes[role]
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"node {role} did not start: {process.communicate()[1]}")
        self._ports[role] = int(line)
