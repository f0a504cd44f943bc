"""A claim that one node alone can mount: its volume stack says so, and no multi_node run takes it.

The cluster is a stack that exports a profile and a Kubernetes API in this process.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.cluster import FilesOffer, KubernetesConnection
from runtime.control.dispatch import new_run_stack, new_stack
from tests.engine.sites import ROOT, Site
from tests.infra.k8s.placing import profile
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api

pytestmark = pytest.mark.engine

LAB = "lab"
PLAIN = "plain"
CLAIMS = "/api/v1/namespaces/lab/persistentvolumeclaims"
FILES = FilesOffer(selector={"a": "b"}, port=1, secret="files", image="python:3.12-slim")
REFUSAL = "deployment.type: multi_node needs a volume that is ReadWriteMany"


@dataclass(frozen=True, kw_only=True)
class Shelves:
    """A site with a cluster, and what its volume stacks are made on."""

    site: Site
    fake: FakeApi
    kubeconfig: str

    def volume(self, stack: str, **settings: object) -> dict[str, object]:
        """Bring a volume stack up and return its outputs."""
        new_stack(self.site.project, stack, {"kind": "volume", **settings})
        self.site.pulumi("up", "-s", stack, KUBECONFIG=self.kubeconfig)
        return json.loads(self.site.pulumi("stack", "output", "--json", "-s", stack).out)

    def plan(self, toml: Path, volume: str) -> str:
        """Return what `paddock plan` says of a run on a volume."""
        command = ("plan", str(toml), "--cluster", LAB, "--volume", volume)
        return self.site.paddock(*command, expect=None, KUBECONFIG=self.kubeconfig).text

    def exporting(self, stack: str, outputs: dict[str, object]) -> None:
        """Make a stack that exports this and has nothing else."""
        self.site.pulumi("stack", "init", stack)
        state = json.loads(self.site.pulumi("stack", "export", "-s", stack).out)
        kind = "pulumi:pulumi:Stack"
        urn = f"urn:pulumi:{stack}::paddock::{kind}::paddock-{stack}"
        root = {"urn": urn, "custom": False, "type": kind, "outputs": outputs}
        state["deployment"]["resources"] = [root]
        self.site.run("pulumi", "stack", "import", "-s", stack, stdin=json.dumps(state))


@pytest.fixture
def shelves(site: Site, tmp_path: Path) -> Iterator[Shelves]:
    """Yield a site whose cluster's own run volume is shared; its stacks go with the test."""
    known = set(stacks_of(site))
    with serve_fake_api(tmp_path) as (fake, _, kubeconfig):
        fake.put(f"{CLAIMS}/theirs", {"spec": {"accessModes": ["ReadWriteOnce"]}})
        made = Shelves(site=site, fake=fake, kubeconfig=str(kubeconfig))
        for cluster, files in ((LAB, FILES), (PLAIN, None)):
            found = profile(
                offer={"files": files},
                name=cluster,
                connection=KubernetesConnection(context="fake", namespace="lab"),
                model_download=True,
            )
            made.exporting(cluster, {"profile": found.model_dump(mode="json")})
        yield made
    for stack in set(stacks_of(site)) - known:
        site.pulumi("stack", "rm", stack, "--force", "--preserve-config", "--yes")


def stacks_of(site: Site) -> list[str]:
    """Return the names of the site's stacks."""
    return [one["name"] for one in json.loads(site.pulumi("stack", "ls", "--json").out)]


def test_a_claim_of_one_node_takes_no_run_of_several(shelves: Shelves, tmp_path: Path) -> None:
    toml = ROOT / "examples" / "multi-node.toml"

    adopted = shelves.volume("adopted", cluster=LAB, claim="theirs")
    assert adopted["shared"] is False
    kinds = {one["type"] for one in shelves.site.export("adopted")}
    assert not any("VolumeFiles" in kind for kind in kinds), "its pod would hold the claim"

    assert REFUSAL in shelves.plan(toml, "adopted")
    assert "single_node" in shelves.plan(ROOT / "examples" / "reverse-text.toml", "adopted")
    settings = {"config": str(toml), "cluster": LAB, "volume": "adopted"}
    new_run_stack(shelves.site.project, "run-wide", settings, secrets={})
    num_asked = len(shelves.fake.requests)
    for command in ("preview", "up"):
        refused = shelves.site.pulumi(
            command, "-s", "run-wide", expect=None, KUBECONFIG=shelves.kubeconfig
        )
        assert refused.code != 0
        assert REFUSAL in refused.text
    assert len(shelves.site.export("run-wide")) <= 1
    assert [one.method for one in shelves.fake.requests[num_asked:] if one.method != "GET"] == []


def test_a_claim_that_a_stack_makes_and_one_of_an_older_stack_take_it(shelves: Shelves) -> None:
    toml = ROOT / "examples" / "multi-node.toml"
    shelves.exporting("older", {"claim": "theirs", "cluster": LAB})

    assert shelves.volume("made", cluster=PLAIN)["shared"] is True
    assert "qwen30b-math: multi_node" in shelves.plan(toml, "made")
    assert "qwen30b-math: multi_node" in shelves.plan(toml, "older")
