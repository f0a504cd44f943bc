"""Names the Go module of the Pulumi engine, and builds it where there is no official Pulumi.

The build is pinned by toolchain/engine/go.mod and go.sum; `toolchain.go_build` does it.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from toolchain.go_build import GoModule, build_commands

ENGINE_PACKAGE = "github.com/pulumi/pulumi/pkg/v3"
# Without it `pulumi version` prints nothing, and the Automation API refuses the engine.
VERSION_VARIABLE = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"


def build_engine(*, module_dir: Path, cache_dir: Path, environment: Mapping[str, str]) -> Path:
    """Return the path of the built engine, building it first if the cache does not hold it."""
    module = engine_module(module_dir)
    return build_commands(module, cache_dir=cache_dir, environment=environment) / "pulumi"


def engine_module(module_dir: Path) -> GoModule:
    """Return the engine's module."""
    version = engine_version(module_dir)
    return GoModule(
        topic="engine",
        what="the Pulumi engine",
        folder=module_dir,
        version=version,
        packages=(f"{ENGINE_PACKAGE}/cmd/pulumi",),
        variables={VERSION_VARIABLE: version},
        num_packages=1700,
        duration="4 to 8 minutes",
        without_go="install Pulumi (pulumi.com/docs/install)",
    )


def engine_version(module_dir: Path) -> str:
    """Return the engine's version as go.mod pins it: `v3.274.1`."""
    found = re.search(rf"{re.escape(ENGINE_PACKAGE)} (v\S+)", (module_dir / "go.mod").read_text())
    assert found, "toolchain/engine/go.mod pins the engine"
    return found.group(1)
