"""The Kubernetes plugin: who provides it, and where a built one lies."""

import importlib.metadata
from pathlib import Path

import pytest

from toolchain import kubernetes_build
from toolchain.go_build import built_folder
from toolchain.installation import Layout, find_layout
from toolchain.kubernetes_build import PLUGIN, find_foreign_plugin, plugin_module, provide_plugin

CHECKOUT = find_layout().checkout
VERSION = "v4.34.2"


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}


def test_nobody_provides_the_plugin_on_a_bare_machine(environment: dict[str, str]) -> None:
    assert find_foreign_plugin(environment, version=VERSION) is None


def test_an_official_pulumi_is_left_to_download_it(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    for name in ("pulumi", "pulumi-language-python"):
        executable(tmp_path / "bin" / name)

    found = find_foreign_plugin(environment, version=VERSION)

    assert found is not None
    assert "downloads its plugins" in found


@pytest.mark.parametrize("place", ["bin", f".pulumi/plugins/resource-kubernetes-{VERSION}"])
def test_a_users_own_plugin_is_used(
    tmp_path: Path, environment: dict[str, str], place: str
) -> None:
    plugin = executable(tmp_path / place / PLUGIN)

    assert str(plugin) in str(find_foreign_plugin(environment, version=VERSION))


def test_our_own_plugin_on_path_is_no_users_plugin(tmp_path: Path) -> None:
    own = executable(tmp_path / "paddock-engine" / PLUGIN)
    environment = {"PATH": str(own.parent), "HOME": str(tmp_path)}

    assert find_foreign_plugin(environment, version=VERSION) is None


def test_a_built_plugin_is_laid_beside_the_engine(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = executable(built_folder(plugin_module(CHECKOUT), tmp_path / "cache") / PLUGIN)
    layout = Layout(checkout=CHECKOUT, cache_dir=tmp_path / "cache", environment=environment)
    monkeypatch.setattr(Layout, "venv", tmp_path / "venv")

    for _ in range(2):
        provide_plugin(layout)

    assert (tmp_path / "venv" / "paddock-engine" / PLUGIN).samefile(built)


def test_nothing_is_built_where_the_user_has_it(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "bin" / PLUGIN)
    layout = Layout(checkout=CHECKOUT, cache_dir=tmp_path / "cache", environment=environment)
    monkeypatch.setattr(kubernetes_build, "build_commands", lambda *a, **b: pytest.fail("built"))

    provide_plugin(layout)


def test_the_plugin_has_the_version_of_its_python_package() -> None:
    assert plugin_module(CHECKOUT).version == f"v{importlib.metadata.version('pulumi-kubernetes')}"
    assert plugin_module(CHECKOUT).commands == (PLUGIN,)
