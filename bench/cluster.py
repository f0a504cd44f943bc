"""What `pulumi up` of a run costs on Kubernetes, against the same objects without paddock.

    python -m bench.cluster --rounds 4

Real engine and API server: the testbed, or the cluster of PADDOCK_TEST_KUBECONFIG; pods stay
Pending. Each round times one after the other: `up` of a run's stack; `kubectl apply` of its very
objects; `up` of an empty program; `up` of a program that declares the objects with Pulumi's SDK
alone. Medians count. CPU seconds are printed too: those of the clock are a busy machine's. One more
round, which is not timed, tells what each program has of them.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench.processes import watched_processes
from infra.k8s.adopted import SKIP_AWAIT
from infra.k8s.gang_job import whole_numbers
from runtime.control.stacks import Project
from tests.cluster.sites import ClusterSite, make_cluster_site
from tests.engine.sites import Site
from tests.testbed import lifecycle
from tests.testbed.cluster import Cluster
from tests.testbed.layout import KUBECONFIG_VARIABLE

MAX_RATIO = 1.2
"""`up` of a run against `kubectl apply` and `up` of an empty program together."""

RUN, APPLY, EMPTY, BARE = "up of a run", "kubectl apply", "up of nothing", "up of the objects"
OBJECT = ("apiVersion", "kind", "metadata", "spec", "data", "type")
EMPTY_PROGRAM = '"""Declares nothing."""\n'
BARE_PROGRAM = '''"""Declares the objects of objects.json with Pulumi's SDK alone."""

import json
import os

import pulumi
import pulumi_kubernetes

provider = pulumi_kubernetes.Provider("cluster", namespace=os.environ["BENCH_NAMESPACE"])
before = []
with open("objects.json") as file:
    objects = json.load(file)
for one in objects:
    version, kind = one["apiVersion"], one["kind"]
    token = f"kubernetes:{version if '/' in version else 'core/' + version}:{kind}"
    opts = pulumi.ResourceOptions(provider=provider, depends_on=before if kind == "Job" else [])
    made = pulumi.CustomResource(token, f"{kind}-{one['metadata']['name']}".lower(), one, opts)
    before += [] if kind == "Job" else [made]
'''


@dataclass(kw_only=True, slots=True)
class Times:
    """Seconds by what was timed, a value a round."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    programs: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of the CPU by program, where `is_watched`; watching takes some CPU itself."""
    is_watched: bool = False

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        """Add what passes within, of the clock and of the CPU of all children."""
        watched = watched_processes() if self.is_watched else nullcontext({})
        used, started = _children_s(), time.perf_counter()
        with watched as programs:
            yield
        self.programs[what] = programs
        self.wall.setdefault(what, []).append(time.perf_counter() - started)
        self.cpu.setdefault(what, []).append(_children_s() - used)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the medians and their ratios; 1 where the clock's is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="rounds; the median counts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # only a first `up` compiles its modules
    times, watched = Times(), Times(is_watched=True)
    with (
        _cluster() as cluster,
        tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder,
        make_cluster_site(Path(folder), cluster) as site,
    ):
        for number in range(options.rounds):
            _round(site, f"bench-run-{number}", times)
        _round(site, "bench-run-watched", watched)
    wall = {what: statistics.median(values) for what, values in times.wall.items()}
    cpu = {what: statistics.median(values) for what, values in times.cpu.items()}
    result = {
        "wall_s": wall,
        "cpu_s": cpu,
        "wall_ratio": _ratio(wall),
        "cpu_ratio": _ratio(cpu),
        "wall_against_objects": wall[RUN] / wall[BARE],
        "cpu_against_objects": cpu[RUN] / cpu[BARE],
        "rounds": times.wall,
        "cpu_s_by_program": watched.programs,
    }
    if options.json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        _print(result)
    return int(result["wall_ratio"] > MAX_RATIO)


def _ratio(medians: dict[str, float]) -> float:
    return medians[RUN] / (medians[APPLY] + medians[EMPTY])


def _print(result: dict[str, Any]) -> None:
    for what, seconds in result["wall_s"].items():
        sys.stdout.write(f"{seconds:7.3f} s, {result['cpu_s'][what]:.3f} s of CPU  {what}\n")
    for what, programs in result["cpu_s_by_program"].items():
        shares = [f"{program} {seconds:.2f}" for program, seconds in programs.items()]
        sys.stdout.write(f"CPU of {what}: {', '.join(shares)}\n")
    sys.stdout.write(
        f"ratio  {result['wall_ratio']:.3f} against kubectl apply + up of nothing "
        f"(CPU {result['cpu_ratio']:.3f}), {result['wall_against_objects']:.3f} against up of the "
        f"objects (CPU {result['cpu_against_objects']:.3f})\nlimit  {MAX_RATIO}\n"
    )


def _round(site: ClusterSite, run_id: str, times: Times) -> None:
    """Time all four, each with nothing of the others left."""
    site.new_run(run_id)
    with times.measure(RUN):
        site.pulumi("up", "-s", run_id)
    objects = list(_objects(site, run_id))
    site.pulumi("destroy", "-s", run_id)
    file = site.folder / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    where = ("--namespace", site.namespace, "--filename", str(file))
    with times.measure(APPLY):
        site.kubernetes.kubectl("apply", *where)
    site.kubernetes.kubectl("delete", *where)
    _time_program(site, EMPTY, EMPTY_PROGRAM, objects, times)
    _time_program(site, BARE, BARE_PROGRAM, objects, times)


def _time_program(
    site: ClusterSite, what: str, program: str, objects: list[dict[str, Any]], times: Times
) -> None:
    """Time `up` of another project's program as a new stack of its own."""
    name = what.replace(" ", "-")
    folder = site.folder / name
    folder.mkdir(exist_ok=True)
    options = {"virtualenv": sys.prefix}
    document = {"name": name, "runtime": {"name": "python", "options": options}}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(document))
    (folder / "__main__.py").write_text(program)
    (folder / "objects.json").write_text(json.dumps(objects))
    environment = {**site.environment, "BENCH_NAMESPACE": site.namespace}
    other = Site(folder=site.folder, project=Project(path=folder, environment=environment))
    other.pulumi("stack", "init", "bench")
    with times.measure(what):
        other.pulumi("up", "-s", "bench")
    other.pulumi("destroy", "-s", "bench")
    other.pulumi("stack", "rm", "bench", "--yes")


def _objects(site: ClusterSite, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a run as they are in its state, the Jobs last."""
    state = json.loads(site.pulumi("stack", "export", "-s", run_id).out)["deployment"]["resources"]
    found = [one["inputs"] for one in state if {"kind", "metadata"} <= set(one.get("inputs") or {})]
    for inputs in sorted(found, key=lambda one: one["kind"] == "Job"):
        kept = {key: inputs[key] for key in OBJECT if key in inputs}
        kept["metadata"] = {**kept["metadata"], "annotations": SKIP_AWAIT}
        secret = kept.get("data") if kept["kind"] == "Secret" else None
        yield whole_numbers({**kept, "data": {}} if secret else kept)


@contextmanager
def _cluster() -> Iterator[Cluster]:
    """Yield the user's cluster, else the testbed; one that was started here is stopped."""
    own = os.environ.get(KUBECONFIG_VARIABLE)
    if own:
        yield Cluster(kubeconfig=Path(own), kubectl=shutil.which("kubectl") or "kubectl")
        return
    testbed, is_ours = lifecycle.start()
    try:
        yield testbed
    finally:
        if is_ours:
            lifecycle.stop()


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
