"""`paddock models`: what is in a model cache, and how a model gets there; local or a cluster's."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from runtime import homes, limits, models
from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.commands.plan import read_profile
from runtime.commands.session import Output, OutputOption, console, print_json, say
from runtime.errors import NotFoundError, SetupError
from runtime.image import tagged_image

models_app = typer.Typer(no_args_is_help=True, help="The models of a model cache.")

_ModelArgument = Annotated[str, typer.Argument(help="name that a TOML gives in [model] name")]
_ClusterOption = Annotated[
    str | None, typer.Option(help="cluster stack, or its profile (JSON); default: this machine")
]


@models_app.command("list")
def list_models(cluster: _ClusterOption = None, output: OutputOption = Output.TEXT) -> None:
    """List the models of this machine's model cache, or of a cluster's."""
    profile = _kubernetes_profile(cluster)
    if profile is not None:
        rows, heading = _cluster_rows(profile), "Commit"
    else:
        found = models.cached_models(str(homes.cache_path()))
        rows, heading = {name: str(path) for name, path in found.items()}, "Folder"
    if output is Output.JSON:
        key = "path" if profile is None else "commit"
        print_json([{"name": name, key: where} for name, where in rows.items()])
        return
    if not rows:
        what = models.TINY_MODEL if profile is None else f"MODEL --cluster {cluster}"
        console().print(f"The model cache is empty: paddock models add {what}")
        return
    table = Table("Model", heading, box=None)
    for name, where in rows.items():
        table.add_row(name, where)
    console().print(table)


@models_app.command("add")
def add_model(
    name: _ModelArgument,
    folder: Annotated[
        Path | None, typer.Argument(help="its Hugging Face directory (this machine's cache)")
    ] = None,
    cluster: _ClusterOption = None,
    revision: Annotated[
        str | None, typer.Option(help="branch, tag or commit to download (a cluster's cache)")
    ] = None,
    image_tag: Annotated[
        str, typer.Option(help="prime-rl image tag that downloads (a cluster's cache)")
    ] = limits.DEFAULT_IMAGE_TAG,
) -> None:
    """Enter a model into a model cache; a cluster downloads it, with HF_TOKEN if that is set.

    This machine's cache takes a folder; paddock's own tiny model is made on the way.
    """
    profile = _kubernetes_profile(cluster)
    if profile is not None:
        if folder is not None:
            raise NotFoundError(f"{folder} lies on this machine: a cluster downloads {name} itself")
        _add_to_cluster(profile, name, revision=revision, image_tag=image_tag)
        return
    cache = str(homes.cache_path())
    if folder is None:
        if name != models.TINY_MODEL:
            raise NotFoundError(f"{name}: give the folder that holds it, a Hugging Face directory")
        folder = make_tiny_model()
    entry = models.add_model(name, folder, cache)
    console().print(f"{name} is in the model cache: {entry}")


def make_tiny_model() -> Path:
    """Make paddock's tiny model, or find it made; progress goes to stderr."""
    argv = [sys.executable, "-m", "runtime.rl.tiny_model"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [line.strip() for line in process.stdout if line.strip()]
    if process.returncode != 0 or not lines:
        raise SetupError(f"making {models.TINY_MODEL} failed with exit code {process.returncode}")
    return Path(lines[-1])


def _kubernetes_profile(cluster: str | None) -> ClusterProfile | None:
    """Return the profile of a cluster of pods, None where the cache is this machine's."""
    profile = read_profile(cluster) if cluster else None
    return profile if profile is not None and profile.kubernetes is not None else None


def _cluster_rows(profile: ClusterProfile) -> dict[str, str]:
    """Return the models that were added to a cluster, and those that its settings name."""
    from runtime.kubernetes_api import KubernetesApi
    from runtime.kubernetes_models import cached_models

    assert isinstance(profile.connection, KubernetesConnection), "a profile with pods says where"
    with closing(KubernetesApi.connect(profile.connection)) as api:
        added = cached_models(api)
    return {**dict.fromkeys(profile.models, "(paddock:models)"), **added}


def _add_to_cluster(
    profile: ClusterProfile, name: str, *, revision: str | None, image_tag: str
) -> None:
    from runtime import kubernetes_models
    from runtime.kubernetes_api import KubernetesApi
    from runtime.kubernetes_model_job import ModelRequest

    assert profile.kubernetes is not None, "asked before"
    assert isinstance(profile.connection, KubernetesConnection), "a profile with pods says where"
    request = ModelRequest(
        model=name,
        image=tagged_image(profile.kubernetes.image_repository, image_tag),
        revision=revision,
        endpoint=os.environ.get("HF_ENDPOINT"),
        token=os.environ.get("HF_TOKEN"),
    )
    with closing(KubernetesApi.connect(profile.connection)) as api:
        commit = kubernetes_models.add_model(api, profile, request, say=say)
    console().print(f"{name} is in the model cache of {profile.name}: commit {commit}")
