"""Job groups: which components are pods of one Job, and which Jobs are alike. Pure.

A group is what JobSet calls a replicated job: Jobs of one pod template. All replicas of inference
are a group, and each replica is a Job of as many pods as it has nodes; every other role is a group
of one Job. An env server has a group of its own.
"""

from dataclasses import dataclass

from runtime import naming, pod_names
from runtime.errors import Problem, RefusedError
from runtime.launch.components import Component


@dataclass(frozen=True, kw_only=True, slots=True)
class JobGroup:
    """Jobs of one template: their replicated job's name, and the components of each, by index."""

    name: str
    jobs: tuple[tuple[Component, ...], ...]

    @property
    def first(self) -> Component:
        """Return the first component: the template is made from it."""
        return self.jobs[0][0]

    @property
    def num_pods(self) -> int:
        """Return the pods of each Job."""
        return len(self.jobs[0])

    @property
    def role(self) -> str:
        """Return the role that all components of the group have."""
        return self.first.role.role

    @property
    def has_gpus(self) -> bool:
        """Tell whether the pods of the group get GPUs."""
        return self.first.num_gpus > 0

    @property
    def component(self) -> str:
        """Return the component label: the component's name, or the group's where it has several."""
        is_one = len(self.jobs) == 1 and self.num_pods == 1
        return self.first.name if is_one else self.name


def job_groups(components: tuple[Component, ...]) -> tuple[JobGroup, ...]:
    """Return the groups of a run's components, in the order of their first component.

    Raises RefusedError where two components would be the same pod: sources whose names give one
    slug, which takes a name that is another's slug with its hash.
    """
    found: dict[str, dict[int, list[Component]]] = {}
    seen: dict[str, Component] = {}
    for component in components:
        key = pod_names.pod_key(component)
        if key in seen:
            raise RefusedError([_same_pod(seen[key], component)], source="pods")
        seen[key] = component
        jobs = found.setdefault(pod_names.replicated_job(component), {})
        jobs.setdefault(pod_names.job_index(component), []).append(component)
    return tuple(
        JobGroup(name=name, jobs=tuple(tuple(jobs[index]) for index in sorted(jobs)))
        for name, jobs in found.items()
    )


def _same_pod(one: Component, other: Component) -> Problem:
    split = "eval" if other.role.split == "eval" else "train"
    return Problem(
        loc=("orchestrator", split, "source") if other.role.role == naming.ENV_SERVER else (),
        message=f"{other.role.source!r} and {one.role.source!r} give the same pod name",
        fix="rename one of the sources",
        code="names_collide",
    )
