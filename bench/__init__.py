"""Benchmarks: what is measured, and against what."""
