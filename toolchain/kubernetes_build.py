"""Provides the Kubernetes provider plugin to an engine of ours; `make setup-kubernetes` calls it.

An official Pulumi downloads its plugins itself, and a plugin that the user installed is used as it
is: only where neither is there, the plugin is built and laid beside the engine in the venv.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from runtime.errors import SetupError
from runtime.toolchain import engine_bin_dir, find_official_engine
from toolchain.engine_bin import place_executable
from toolchain.go_build import GoModule, build_commands
from toolchain.installation import INTERRUPTED_EXIT_CODE, Layout, find_layout
from toolchain.progress import say

PLUGIN = "pulumi-resource-kubernetes"
TOPIC = "kubernetes-plugin"


def install_plugin() -> int:
    """Provide the plugin and return the exit code; errors are printed, not raised."""
    started = time.monotonic()
    try:
        provide_plugin(find_layout())
    except SetupError as error:
        print(f"make setup-kubernetes: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("make setup-kubernetes: interrupted; the next one goes on here", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
    say(TOPIC, f"ready in {time.monotonic() - started:.1f} s")
    return 0


def provide_plugin(layout: Layout, *, niceness: int = 0) -> None:
    """Put the plugin beside this checkout's engine, building it first if nobody has it."""
    module = plugin_module(layout.checkout)
    provider = find_foreign_plugin(layout.environment, version=module.version)
    if provider is not None:
        say(TOPIC, f"{provider}: nothing is built")
        return
    built = build_commands(
        module, cache_dir=layout.cache_dir, environment=layout.environment, niceness=niceness
    )
    bin_dir = engine_bin_dir(layout.venv)
    bin_dir.mkdir(parents=True, exist_ok=True)
    place_executable(built / PLUGIN, bin_dir / PLUGIN)


def find_foreign_plugin(environment: Mapping[str, str], *, version: str) -> str | None:
    """Return who provides the plugin without us, in words; None where nobody does."""
    search_path = environment.get("PATH", "")
    official = find_official_engine(search_path)
    if official is not None:
        return f"your Pulumi ({official.pulumi}) downloads its plugins itself"
    found = shutil.which(PLUGIN, path=search_path)
    if found is not None and Path(found).parent.name != engine_bin_dir().name:
        return f"your plugin on PATH ({found}) is used"
    home = environment.get("PULUMI_HOME") or Path(environment["HOME"], ".pulumi")
    installed = Path(home, "plugins", f"resource-kubernetes-{version}", PLUGIN)
    if os.access(installed, os.X_OK):
        return f"your installed plugin ({installed}) is used"
    return None


def plugin_module(checkout: Path) -> GoModule:
    """Return the Go module of the plugin."""
    folder = checkout / "toolchain" / "kubernetes_plugin"
    version = re.search(r'^const version = "(\S+)"', (folder / "main.go").read_text(), re.MULTILINE)
    assert version, "toolchain/kubernetes_plugin/main.go says its version"
    return GoModule(
        topic=TOPIC,
        what="Pulumi's Kubernetes plugin",
        folder=folder,
        version=f"v{version.group(1)}",
        packages=(".",),
        num_packages=1800,
        duration="5 to 10 minutes",
        without_go="install Pulumi (pulumi.com/docs/install), which downloads the plugin",
    )
