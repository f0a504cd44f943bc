"""Observation of runs on Kubernetes: facts from its objects, verdicts, watches, logs, headroom."""
