"""The report of a run: plain data in, one self-contained HTML page out.

`model` says what a report is made of, `page` writes it, `diagram` draws the counterexample as a sequence diagram,
`replication` turns a trace of the replication spec into what `diagram` draws. The page needs no network: styles and
the few lines of script are in it, and everything that comes from outside is escaped.
"""

from tidegauge.model_tests.harness.report.model import Report
from tidegauge.model_tests.harness.report.page import render, write

__all__ = ["Report", "render", "write"]
