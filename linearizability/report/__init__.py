"""Pages about verdicts: an anomaly as a timeline, plain data in, one self-contained HTML page out.

`document` and `markup` make any page, `moments` finds what was known of a partition at a moment, `timeline` chooses
what of a history is shown, `anomalies` draws it.
"""
