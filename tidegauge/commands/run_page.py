"""The options of `tidegauge simulate` that write a page of its run."""

from __future__ import annotations

from pathlib import Path
from shlex import join
from typing import Annotated

import attrs
from cyclopts import Parameter

from tidegauge.commands.outputs import check_page, check_page_size, write_text
from tidegauge.exits import Unusable
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.simulation.group_roles import CORRECT
from tidegauge.model_tests.harness.simulation.options import Options, told_turns
from tidegauge.model_tests.harness.verification.campaigning import OF_GROUPS, Clients, draw_group_with

STEPS = 100
"""Of a page, unless its reader says otherwise."""
STATES = 150
"""The same of states; a state of a run has a hundred choices and more."""
MOST_STEPS, MOST_STATES = 10_000, 2_000
"""Of a page: a thousand states of a run are 6 MB."""


@attrs.frozen
class RunPage:
    """What of a run is written as a page to walk through."""

    page: Annotated[
        Path | None,
        Parameter(
            help="Write an HTML page to walk through what one partition did, and through what the specification "
            "allows there; of a single seed. With --groups: what coordinators decided about the group."
        ),
    ] = None
    page_partition: Annotated[
        str | None,
        Parameter(help="The partition of that page, such as orders-0: else one that is wrong, or the first."),
    ] = None
    page_from: Annotated[
        int | None, Parameter(help="The page's first step: else it ends where something is wrong, or begins with 1.")
    ] = None
    page_steps: Annotated[int, Parameter(help="Steps of that page.")] = STEPS
    page_states: Annotated[
        int,
        Parameter(
            help=f"States of that page: those of its steps, and others near its first step; at most {MOST_STATES}."
        ),
    ] = STATES

    def check(self, *, seeds: int, has_groups: bool, breeds: bool) -> None:
        """Raises Unusable for a page that cannot be written, and for one of several runs."""
        if self.page is None:
            for option, value, usual in (
                ("--page-partition", self.page_partition, None),
                ("--page-from", self.page_from, None),
                ("--page-steps", self.page_steps, STEPS),
                ("--page-states", self.page_states, STATES),
            ):
                if value != usual:
                    raise Unusable(f"{option} {value}: name the page, by --page FILE")
            return
        if seeds > 1 or breeds:
            raise Unusable(f"--page {self.page}: it is of one seed: leave --seeds and --breed out")
        if has_groups and self.page_partition is not None:
            words = "with --groups the page is of the group, and of no partition: leave one of them out"
            raise Unusable(f"--page-partition {self.page_partition}: {words}")
        check_page_size("--page-steps", self.page_steps, MOST_STEPS)
        check_page_size("--page-states", self.page_states, MOST_STATES)
        if self.page_from is not None and self.page_from < 1:
            raise Unusable(f"--page-from {self.page_from}: the first step is 1")
        check_page("--page", self.page)

    def write(self, options: Options, clients: Clients, bug: str | None) -> Path | None:
        """Write the page, if one was asked; the path. Raises Unusable for a partition or a step that is not there."""
        from tidegauge.model_tests.harness.report.group_run_page import page_of_group_run
        from tidegauge.model_tests.harness.report.run_page import NoSuchStretchError, Stretch, page_of_run

        if self.page is None:
            return None
        stretch = Stretch(self.page_partition, self.page_from, self.page_steps, self.page_states)
        again = self.again(options, clients, bug)
        try:
            if clients in OF_GROUPS:
                roles = CORRECT if bug is None else HARNESS.bug(bug).roles
                text = page_of_group_run(draw_group_with(options.seed, bug, clients), stretch, again, roles)
            else:
                text = page_of_run(options, stretch, again)
        except NoSuchStretchError as error:
            raise Unusable(f"--page {self.page}: {error}") from None
        write_text("--page", self.page, text)
        return self.page

    def again(self, options: Options, clients: Clients, bug: str | None) -> str:
        """The command that writes the same page."""
        given: dict[str, object] = {
            "--seed": options.seed,
            "--turns": told_turns(options.turns) if options.turns else None,
            "--bug": bug,
            "--page": self.page,
            "--page-partition": self.page_partition,
            "--page-from": self.page_from,
            "--page-steps": self.page_steps,
            "--page-states": self.page_states,
        }
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        return join(["tidegauge", "simulate", *clients.option.split(), *words])
