"""The environment of a run's containers: what it holds, and that it arrives byte for byte."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.k8s.manifests import run_manifests
from runtime.pod_literals import literal
from tests.infra.k8s.placing import (
    H200,
    env,
    groups_of,
    main,
    manifests,
    placed_text,
    pod,
    profile,
)
from tests.runtime.deployments import NODES, TEXT

MODEL = "Qwen/Qwen3-0.6B"


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return what a container gets: Kubernetes' own rule (third_party/.../expand.go)."""
    found, place = "", 0
    while place < len(text):
        character = text[place]
        rest = text[place + 1 :]
        if character != "$" or not rest:
            found += character
            place += 1
        elif rest[0] == "$":
            found += "$"
            place += 2
        elif rest[0] == "(" and ")" in rest:
            name = rest[1 : rest.index(")")]
            found += values.get(name, f"$({name})")
            place += len(name) + 3
        else:
            found += f"${rest[0]}"
            place += 2
    return found


@given(st.text(alphabet="$()aB _\n", max_size=20))
def test_a_value_arrives_as_it_was_written(value: str) -> None:
    assert expanded(literal(value), {"": "!", "a": "!", "B": "!"}) == value


def test_a_reference_in_a_config_value_is_not_followed() -> None:
    more = "[inference]\n[trainer.env_vars]\nGREETING = 'a $(PATH) $$ $HOME'"
    found = run_manifests(placed_text(TEXT.format(deployment="", more=more)))

    assert env(main(found, "trainer"))["GREETING"] == "a $$(PATH) $$$$ $$HOME"


def test_the_secret_reaches_every_role_but_the_router() -> None:
    found = manifests("several engines")

    for group in groups_of(found):
        spec = pod(found, group)
        for container in spec["initContainers"] + spec["containers"]:
            secrets = [{"secretRef": {"name": "run-123-1-env"}}] if group != "router" else None
            assert container.get("envFrom") == secrets


def test_a_role_has_its_own_table_over_the_common_one() -> None:
    more = """[inference.env_vars]
A = "inference"
[trainer.env_vars]
A = "trainer"
[orchestrator.env_vars]
A = "orchestrator"
[env_vars]
A = "all"
B = "all"
"""
    found = run_manifests(placed_text(TEXT.format(deployment="num_infer_gpus = 2", more=more)))

    values = {group: env(main(found, group)) for group in groups_of(found)}
    assert {group: each["A"] for group, each in values.items()} == {
        "inference": "inference",
        "router": "inference",
        "env-train-reverse-text": "orchestrator",
        "orchestrator": "orchestrator",
        "trainer": "trainer",
    }
    assert {each["B"] for each in values.values()} == {"all"}


def test_prefill_and_decode_have_tables_of_their_own() -> None:
    more = """
[inference.deployment]
type = "disaggregated"
[inference.deployment.prefill_env_vars]
A = "prefill"
[inference.deployment.decode_env_vars]
A = "decode"
"""
    found = run_manifests(placed_text(TEXT.format(deployment=NODES.format(train=1), more=more)))

    assert env(main(found, "prefill"))["A"] == "prefill"
    assert env(main(found, "decode"))["A"] == "decode"
    assert "A" not in env(main(found, "router"))


def test_a_pod_knows_which_job_it_is_of() -> None:
    first = main(manifests(), "trainer")["env"][0]

    field = "metadata.labels['paddock.dev/job-index']"
    assert first == {
        "name": "PADDOCK_JOB_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": field}},
    }


def test_a_component_is_named_where_its_template_is_its_own() -> None:
    assert env(main(manifests(), "trainer"))["PADDOCK_COMPONENT"] == "trainer-0"
    assert "PADDOCK_COMPONENT" not in env(main(manifests("multi_node"), "trainer"))


@pytest.mark.parametrize(("models", "offline"), [((MODEL,), "1"), ((), None)])
def test_a_cached_model_keeps_the_gpu_roles_off_the_hub(
    models: tuple[str, ...], offline: str | None
) -> None:
    found = manifests(profile=profile(models=models))

    for group in ("trainer", "inference"):
        assert env(main(found, group)).get("HF_HUB_OFFLINE") == offline
    assert "HF_HUB_OFFLINE" not in env(main(found, "orchestrator"))


def test_caches_are_on_the_model_cache() -> None:
    values = env(main(manifests(), "inference"))

    assert values["HF_HOME"] == "/paddock/models/hf"
    assert values["VLLM_CACHE_ROOT"] == "/paddock/models/compile/vllm"
    assert values["TORCHINDUCTOR_CACHE_DIR"] == "/paddock/models/compile/inductor"


def test_a_read_only_cache_means_offline_and_no_compile_cache() -> None:
    found = manifests("several engines", profile=profile(offer={"models_read_only": True}))

    for group in groups_of(found):
        values = env(main(found, group))
        assert values["HF_HUB_OFFLINE"] == "1"
        assert not values["HF_DATASETS_CACHE"].startswith("/paddock/models")
        assert not [name for name in values if name.endswith(("CACHE_DIR", "CACHE_ROOT"))]


def test_a_file_may_overrule_a_default() -> None:
    more = '[inference]\n[env_vars]\nHF_HUB_OFFLINE = "0"'
    text = TEXT.format(deployment="", more=more)

    found = run_manifests(placed_text(text, profile=profile(models=(MODEL,))))

    assert env(main(found, "trainer"))["HF_HUB_OFFLINE"] == "0"


def test_nccl_says_what_it_uses_where_the_plan_has_rdma() -> None:
    assert env(main(manifests("multi_node"), "trainer"))["NCCL_DEBUG"] == "INFO"
    assert "NCCL_DEBUG" not in env(main(manifests("multi_node"), "orchestrator"))
    assert "NCCL_DEBUG" not in env(main(manifests(), "trainer"))


def test_efa_is_chosen_by_name() -> None:
    efa = H200.model_copy(update={"rdma_resource": "vpc.amazonaws.com/efa", "rdma_per_node": 16})

    found = manifests("multi_node", profile=profile(gpus=(efa,)))

    assert env(main(found, "trainer"))["FI_PROVIDER"] == "efa"
    assert "FI_PROVIDER" not in env(main(manifests("multi_node"), "trainer"))
