"""Tests of `impl/tap`: what passes through, and what is recorded of it."""
