"""The targets: one module each, all with declare_cluster, declare_volume and declare_run.

To add one: a module here, a line in TARGETS, its tests; nothing in runtime changes.
"""

from infra.targets import kubernetes, local

TARGETS = {"local": local, "kubernetes": kubernetes}
