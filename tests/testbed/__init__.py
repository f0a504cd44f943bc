"""A real Kubernetes cluster on this machine, built from package registries, for the tests.

`python -m tests.testbed start` is the way by hand; `cluster.Testbed` is the way in Python.
"""
