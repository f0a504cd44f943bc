"""Private project directories: one for each run that paddock drives itself.

The checkout is never written to: the directory has its own Pulumi.yaml with an absolute `main:` and
its own stacks/, since `--config-file` is unknown to `stack init`, `output`, `cancel` and `rm`.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from runtime.control.backend import pulumi_environment
from runtime.control.stacks import Project


def make_private_project(
    checkout: Path, folder: Path, *, environ: Mapping[str, str] | None = None
) -> Project:
    """Make a private project directory of a checkout's program, or renew it, and return it."""
    document = yaml.safe_load((checkout / "Pulumi.yaml").read_text())
    document["main"] = str((checkout / document["main"]).resolve())
    document["runtime"]["options"]["virtualenv"] = sys.prefix
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "stacks").mkdir(exist_ok=True)
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return Project(path=folder, environment=pulumi_environment(environ or os.environ))
