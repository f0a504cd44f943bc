"""From the user's TOML to the components' files, by the image's own prime-rl. Runs in a pod.

A program of its own in one file, Python 3.10 and the standard library beside prime-rl, started by
the orchestrator's `pod_entry.py prepare`: `resolve.py [--resume-step N]`. The image's
prime-rl parses the file as written. Only what it refuses is read in the hosted service's spelling,
one at a time, and said. Then the files are split as prime-rl's launcher does, and the run's own
addresses, world sizes and paths put in; nothing else is changed. All components' files are written
here, since only this pod is sure to have the environments that the file names.

Exit code 2: the file is refused, with one message that names the fields.
"""

import argparse
import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).absolute().parent
EXIT_REFUSED = 2
MAX_PROBLEMS = 20

# The same as in runtime.config.spellings and runtime.config.dispatch; a test compares them.
SPELLINGS = (
    (("name",), ("run", "name")),
    (("orchestrator", "train", "group_size"), ("orchestrator", "group_size")),
    (("wandb",), ("monitors", "wandb")),
    (("trainer", "wandb"), ("trainer", "monitors", "wandb")),
    (("orchestrator", "wandb"), ("orchestrator", "monitors", "wandb")),
)
SLURM = ((), ("slurm",))  # prime-rl asks for that table where there is more than one node
DISPATCH_KEYS = (
    *("image_tag", "gpu_type", "volume", "volume_size"),
    *("env_file", "env_files", "source_ref"),
)
LAUNCHER_KEYS = {"deployment", "slurm", "output_dir", "dry_run"}

Json = dict[str, Any]  # Any: JSON and TOML


class RefusedError(Exception):
    """The file cannot be run; the message says what and where."""


def load_table(text: str) -> Json:
    """Return the table of a TOML text without the keys that only say how a run is dispatched."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # pyright: ignore[reportMissingImports] - in every such image
    try:
        table = tomllib.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise RefusedError(f"rl.toml is no TOML: {error}") from None
    for key in DISPATCH_KEYS:
        table.pop(key, None)
    if table.get("type") == "rl":
        del table["type"]
    return table


def accept(  # noqa: ANN201 - prime-rl's config
    table: Json, validate: "Callable[[Json], Any]", say: "Callable[[str], None]"
):
    """Return the config of a table; what is refused is respelled, one key at a time.

    Raises RefusedError with the problems that are left, and passes on every other error.
    """
    table = copy.deepcopy(table)
    while True:
        try:
            return validate(copy.deepcopy(table))  # a validator may change what it is given
        except ValueError as error:
            spelling = next_spelling(table, error)
            if spelling is None:
                raise RefusedError(explain(error)) from None
            say(respell(table, *spelling))


def next_spelling(table: Json, error: ValueError) -> "tuple | None":
    """Return the mapping that the refusal asks for, else the first that could be meant."""
    possible = [pair for pair in SPELLINGS if at(table, pair[0]) is not None]
    deployment = table.get("deployment")
    if isinstance(deployment, dict) and deployment.get("type") == "multi_node":
        possible += [SLURM] if "slurm" not in table else []
    found = problems(error)
    for pair in possible:
        if pair is SLURM and any("slurm" in problem["msg"].lower() for problem in found):
            return pair
        if pair is not SLURM and any(tuple(problem["loc"]) == pair[0] for problem in found):
            return pair
    return possible[0] if possible else None


def respell(table: Json, hosted: "tuple[str, ...]", native: "tuple[str, ...]") -> str:
    """Move a hosted key to prime-rl's place in the table and return what was done."""
    if not hosted:
        table["slurm"] = {}
        return "deployment.type multi_node: an empty [slurm] is added, which prime-rl asks for"
    parent = at(table, hosted[:-1])
    value = parent.pop(hosted[-1])
    target = table
    for part in native[:-1]:
        target = target.setdefault(part, {})
    if target.setdefault(native[-1], value) != value:
        names = f"{dotted(hosted)} and {dotted(native)}"
        raise RefusedError(f"{names} are two spellings of one key and disagree")
    return f"{dotted(hosted)}: read as prime-rl's {dotted(native)}"


def at(table: Json, path: "tuple[str, ...]") -> Any:  # noqa: ANN401 - whatever is there
    """Return the value at a path, None where there is none."""
    node: Any = table
    for part in path:
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node


def problems(error: ValueError) -> "list[Json]":
    """Return what a refusal says: path and message each, never a value of the file."""
    if not hasattr(error, "errors"):
        return [{"loc": (), "msg": str(error)}]
    return error.errors(include_url=False, include_input=False, include_context=False)  # pyright: ignore


def explain(error: ValueError) -> str:
    """Return the problems of a refusal, one a line."""
    found = problems(error)
    lines = [": ".join(filter(None, (dotted(item["loc"]), item["msg"]))) for item in found]
    if len(lines) > MAX_PROBLEMS:
        lines[MAX_PROBLEMS:] = [f"and {len(lines) - MAX_PROBLEMS} further problems"]
    return "\n  ".join(["prime-rl in this image refuses the file:", *lines])


def dotted(path: "tuple[str | int, ...]") -> str:
    """Return a path as it is written in the file."""
    return ".".join(map(str, path))


def split(config: Any) -> "dict[str, Json]":  # noqa: ANN401 - prime-rl's config
    """Return path (relative to configs/) to content, as prime-rl's launcher splits a config.

    A source with an address of its own is served elsewhere and has no file.
    """
    orchestrator = config.orchestrator.model_dump(mode="json")
    files = {
        "trainer.json": config.trainer.model_dump(mode="json"),
        "orchestrator.json": orchestrator,
    }
    if config.inference is not None:
        inference = config.inference.model_dump(mode="json")
        kept = {key: value for key, value in inference.items() if key not in LAUNCHER_KEYS}
        files["inference.json"] = kept
    log = orchestrator["log"]
    for part, source in sources(orchestrator):
        if source["serve"]["address"] is None:
            files[f"envs/{part}/{source['name']}.json"] = {
                "env": source["env"],
                "serve": copy.deepcopy(source["serve"]),
                "log": {"level": log["vf_level"], "json_logging": log["json_logging"]},
            }
    return files


def sources(orchestrator: Json) -> "list[tuple[str, Json]]":
    """Return every source with its split, train first."""
    return [
        (part, source)
        for part in ("train", "eval")
        for source in (orchestrator.get(part) or {}).get("source") or []
    ]


def inject(files: "dict[str, Json]", launch: Json, resume_step: "int | None") -> "dict[str, Json]":
    """Return the files with the run's addresses, counts and paths in them; nothing else changes.

    The orchestrator keeps the metrics file that the config names. The trainer gets one beside it,
    since two hosts that append to one file of a network volume overwrite each other's rows.
    """
    files = copy.deepcopy(files)
    wiring = launch["wiring"]
    trainer, orchestrator = files["trainer.json"], files["orchestrator.json"]
    for component in (trainer, orchestrator):
        component["output_dir"] = launch["run_dir"]
        if resume_step is not None:
            component["resume"] = {"step": resume_step, "dir": None}
        if "inference_world_size" in component["weight_broadcast"]:
            component["weight_broadcast"]["inference_world_size"] = wiring["inference_world_size"]
    # Each side of a channel has the key `host`: one binds it, the other connects to it.
    set_channel(trainer["weight_broadcast"], "nccl", wiring["weights"], side="bind")
    set_channel(orchestrator["weight_broadcast"], "nccl", wiring["weights"], side="connect")
    set_channel(orchestrator["rollout_transport"], "zmq", wiring["rollouts"], side="bind")
    set_channel(trainer["rollout_transport"], "zmq", wiring["rollouts"], side="connect")
    orchestrator["num_train_workers"] = wiring["num_train_workers"]
    if wiring["base_url"]:
        client = orchestrator["model"]["client"]
        client["base_url"] = wiring["base_url"]
        client["admin_base_url"] = list(wiring["admin_urls"])
    if wiring["admin_roles"]:
        orchestrator["inference_metrics_roles"] = list(wiring["admin_roles"])
    set_env_servers(files, wiring["env_servers"])
    if launch["trainer_metrics_port"] is not None:
        server = trainer.get("metrics_server") or {"host": "0.0.0.0"}  # noqa: S104 - the pod's own
        trainer["metrics_server"] = {**server, "port": launch["trainer_metrics_port"]}
    separate_metrics(trainer, orchestrator)
    if "inference.json" in files:
        files["inference.json"]["router"] = None  # it has a pod of its own, or is not needed
    return files


def set_channel(transport: Json, kind: str, channel: "Json | None", *, side: str) -> None:
    """Set the address of one side of a channel, where the transport is of this kind."""
    if channel is not None and transport.get("type") == kind:
        transport["host"] = channel[side]
        transport["port"] = channel["port"]


def set_env_servers(files: "dict[str, Json]", addresses: "dict[str, str]") -> None:
    """Tell each env server where to listen, and the orchestrator where that is."""
    served = {path[len("envs/") : -len(".json")] for path in files if path.startswith("envs/")}
    if served != set(addresses):
        raise RefusedError(
            f"prime-rl in this image serves the sources {sorted(served)}, the run has pods for "
            f"{sorted(addresses)}: give each source a name"
        )
    for part, source in sources(files["orchestrator.json"]):
        key = f"{part}/{source['name']}"
        if key in addresses:
            source["serve"]["address"] = addresses[key]
            port = addresses[key].rpartition(":")[2]
            files[f"envs/{key}.json"]["serve"]["address"] = f"tcp://0.0.0.0:{port}"


def separate_metrics(trainer: Json, orchestrator: Json) -> None:
    """Give the trainer a metrics file of its own where both would append to one."""
    own, other = (at(component, ("monitors", "file")) for component in (trainer, orchestrator))
    if own and other and own["path"] == other["path"]:
        path = Path(own["path"])
        own["path"] = str(path.with_name(f"{path.stem}-trainer{path.suffix}"))


def files_to_write(files: "dict[str, Json]", launch: Json) -> "dict[str, Json]":
    """Return every pod's file by the path under which its command reads it, and its overrides."""
    found: dict[str, Json] = {}
    for key, pod in launch["pods"].items():
        found.update(pod["files"])
        if pod["config"] is None:
            continue
        path = "inference.json" if pod["role"] == "inference" else pod["config"]
        if path not in files:
            raise RefusedError(f"pod {key} needs {path}, which prime-rl in this image did not make")
        found[pod["config"]] = files[path]
    return found


def resolve(launch: Json, text: str, resume_step: "int | None") -> "dict[str, Json]":
    """Return all files of a run. Raises RefusedError for a file that this image cannot run."""
    try:
        from prime_rl.configs.rl import RLConfig  # pyright: ignore - the image's
    except ModuleNotFoundError as error:
        raise RefusedError(f"no prime-rl in this image (no module {error.name})") from None
    try:
        config = accept(load_table(text), RLConfig.model_validate, print)
    except ModuleNotFoundError as error:
        raise RefusedError(
            f"the file names a package that is not in this image: {error.name}; taskset and "
            "harness packages are installed by the setting paddock:environments"
        ) from None
    return files_to_write(inject(split(config), launch, resume_step), launch)


def main() -> int:
    """Write the files of the run that launch.json describes."""
    parser = argparse.ArgumentParser(description="Write the files of a run's components.")
    parser.add_argument("--resume-step", type=int)
    options = parser.parse_args()
    launch = json.loads((HERE / "launch.json").read_text())
    configs = Path(launch["run_dir"]) / "configs"
    text = (HERE / "rl.toml").read_text(encoding="utf-8")
    try:
        files = resolve(launch, text, options.resume_step)
    except RefusedError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    for name, content in files.items():
        path = configs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(json.dumps(content, indent=2))
        temporary.replace(path)
    print(f"wrote {', '.join(sorted(files))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
