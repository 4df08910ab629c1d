"""Tests of `linearizability/tapped`: what the lines of a recording amount to."""
