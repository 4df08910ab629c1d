"""`tidegauge verify`, part by part: explore, lockstep, a bug on purpose, simulate, check twice. It prints nothing."""
