"""Observation of runs: what a target shows of them, read without Pulumi and without a stack."""
