"""The main job, part by part: explore, drive, break on purpose, simulate, judge twice. Values out, nothing printed."""
