"""Rules between fields, one edit each; and what a message holds and does not hold."""

import pytest

from runtime.config import load_stored_config
from runtime.errors import ConfigError
from tests.runtime.config.examples import MINIMAL, paths_of, refusal

SOURCE = "orchestrator.train.source[0]"
MULTI = '[deployment]\ntype = "multi_node"\nnum_train_nodes = 2\n'

BROKEN = [
    ('[trainer.model]\nimpl = "hf"\nattn = "auto"', "trainer.model.attn"),
    ('[trainer.model]\nimpl = "hf"\nattn = "flash_attention_2"\nep = 2', "trainer.model.ep"),
    (
        '[trainer.model]\nimpl = "custom"\ntrust_remote_code = true',
        "trainer.model.trust_remote_code",
    ),
    ('[trainer.model]\nep = 1\nep_comm_backend = "deepep"', "trainer.model.ep_comm_backend"),
    ("[trainer.model]\nfull_offload = true", "trainer.model.full_offload"),
    (
        "[trainer.model]\nfsdp_cpu_offload = true\noptim_cpu_offload = false\n"
        "[trainer.optim]\ntype = 'muon'",
        "trainer.optim.type",
    ),
    ('[trainer.model.ac]\nmode = "selective"\ntargets = []', "trainer.model.ac.targets"),
    (
        '[trainer.model]\nquantization.type = "mxfp8"\nep_comm_backend = "deepep"',
        "trainer.model.ep_comm_backend",
    ),
    ('[trainer]\ntrace_path = "t"', "trainer.trace_path"),
    ('[trainer.scheduler]\ntype = "linear"', "trainer.scheduler"),
    ("[trainer.model.lora]\n[orchestrator.model.lora]\nrank = 4", "orchestrator.model.lora.rank"),
    ('[trainer]\noutput_dir = "elsewhere"', "trainer.output_dir"),
    ('[trainer]\nmemory_profiler_path = "/x"', "trainer.memory_profiler_path"),
    ('[ckpt]\noutput_dir = "/volume/other"', "ckpt.output_dir"),
    ('[monitors.file]\npath = "../x.jsonl"', "monitors.file.path"),
    ('[run]\ndir = "../other"', "run.dir"),
    ('[run]\nname = "a\\tb"', "run.name"),
    (f'[run]\nname = "{"x" * 257}"', "run.name"),
    ('[resume]\ndir = "runs/x"', "resume.dir"),
    ('[resume]\ndir = "runs/step_\u00b2"', "resume.dir"),
    ('[resume]\ndir = "runs/step_007"', "resume.dir"),
    ('[inference.router]\ntype = "llm-d"', "inference.router.type"),
    ('[inference.deployment]\ntype = "disaggregated"', "inference.deployment.type"),
    (
        '[inference.kv_cache_offload]\ntype = "mooncake"\ncpu.num_bytes = 1',
        "inference.kv_cache_offload.type",
    ),
    ("[deployment]\nnum_infer_gpus = 0", "deployment.num_infer_gpus"),
    ("[deployment]\nnum_train_gpus = 4\nnum_infer_gpus = 5", "deployment"),
    (f'{MULTI}[inference]\nrouter = "None"', "inference.router"),
    (f"{MULTI}num_infer_nodes = 0", "deployment.num_infer_nodes"),
    (f"{MULTI}[inference.vllm]\ntensor_parallel_size = 16", "inference.vllm.tensor_parallel_size"),
    ("[orchestrator.eval]", "orchestrator.eval"),
    (
        "[orchestrator]\nenv_server_base_port = 65535\n"
        "[[orchestrator.eval.source]]\nenv.taskset.id = 'x'",
        "orchestrator.env_server_base_port",
    ),
    ("[orchestrator.algo]\ntype = 'sft'", "orchestrator.algo.sampling.source"),
    ("[orchestrator.algo]\ntype = 'echo'\n[orchestrator.algo.roles]", "orchestrator.algo.roles"),
    (
        "[orchestrator.algo.sampling.source]\nname = 'x'\nbase_url = 'http://x'",
        "orchestrator.algo.sampling.source",
    ),
    ("[env_vars]\nLD_PRELOAD = 'x'", "env_vars.LD_PRELOAD"),
    ("[env_vars]\nHF_TOKEN = 'x'", "env_vars.HF_TOKEN"),
    ("[orchestrator.env_vars]\nJUDGE_API_KEY = 'x'", "orchestrator.env_vars.JUDGE_API_KEY"),
    (
        "[orchestrator.model.client]\nbase_url = 'https://user:pw@host/v1'",
        "orchestrator.model.client.base_url",
    ),
    (
        "[orchestrator.model.client.headers]\nauthorization = 'Bearer x'",
        "orchestrator.model.client.headers.authorization",
    ),
    (
        "[orchestrator.algo]\ntype = 'opd'\n[orchestrator.algo.teacher]\nname = 't'\n"
        "base_url = 'http://t/v1'\nheaders.Cookie = 'session=x'",
        "orchestrator.algo.teacher.headers.Cookie",
    ),
    ("[env_vars]\n'A-B' = 'x'", "env_vars.A-B"),
    ("[inference.env_vars]\nWANDB_RUN_ID = 'x'", "inference.env_vars.WANDB_RUN_ID"),
    ("[orchestrator.heartbeat]\nurl = 'http://[fe80::1]/'", "orchestrator.heartbeat.url"),
    ("[slurm]\ntemplate_path = 'x.j2'", "slurm.template_path"),
    ("[trainer.tokenizer]\nchat_template = 'x'", "orchestrator.tokenizer.chat_template"),
]

OF_THE_SOURCE = [
    ('name = "a/b"', "name"),
    ('name = ".."', "name"),
    ('name = "agg"', "name"),
    ("serve.address = 'tcp://169.254.169.254:80'", "serve.address"),
    ("env.max_concurent_agents = 3", "env.max_concurent_agents"),
    ('env.harness.id = "null"', "env"),
    ("curriculum.gates.x.reject_min = 2", "curriculum.gates.x"),
    (
        "curriculum.sampler = {type = 'difficulty_pool', pools.a = {threshold = 1, weight = 0}}",
        "curriculum.sampler.pools",
    ),
    ("algo.type = 'opd'", "algo.teacher"),
    (
        "env.taskset.task.judges = [{api_key_var = 'PADDOCK_X'}]",
        "env.taskset.task.judges[0].api_key_var",
    ),
    (
        "env.taskset.task.judges = [{api_key_var = 'sk-live-1'}]",
        "env.taskset.task.judges[0].api_key_var",
    ),
    (
        "env.taskset.task.judges = [{headers = {X-Api-Key = 'x'}}]",
        "env.taskset.task.judges[0].headers.X-Api-Key",
    ),
    (
        "env.agent.client = {type = 'eval', headers = {Proxy-Authorization = 'Basic x'}}",
        "env.agent.client.headers.Proxy-Authorization",
    ),
]


def edited(extra: str) -> str:
    """Return the minimal config with tables added; a table that it has already is replaced."""
    text = MINIMAL
    for header in ("[trainer]", "[inference]"):
        if extra.startswith(header) or f"\n{header}" in extra:
            text = text.replace(header, "")
    if extra.startswith("[orchestrator]"):
        head, _, rest = extra.partition("\n[[")
        text = text.replace("[orchestrator]", head)
        extra = f"[[{rest}"
    return f"{text}\n{extra}\n"


@pytest.mark.parametrize(("extra", "path"), BROKEN, ids=[path for _, path in BROKEN])
def test_a_broken_rule_is_one_problem_at_its_path(extra: str, path: str):
    assert paths_of(edited(extra)) == [path]


@pytest.mark.parametrize(("line", "path"), OF_THE_SOURCE, ids=[path for _, path in OF_THE_SOURCE])
def test_a_source_that_breaks_a_rule_is_named(line: str, path: str):
    key = line.split(" ")[0]
    text = MINIMAL.replace('name = "reverse-text"\n', "" if key == "name" else 'name = "x"\n')

    assert paths_of(text.replace("env.taskset.id", f"{line}\nenv.taskset.id")) == [
        f"{SOURCE}.{path}"
    ]


def test_fields_and_rules_are_reported_together():
    text = MINIMAL.replace("batch_size = 64", "batch_size = 60").replace(
        "[trainer]", "[trainer.optim]\nlr = -1"
    )

    assert paths_of(f"{text}\n[deployment]\nnum_train_gpus = 9\nnum_trian_nodes = 1\n") == [
        "trainer.optim.lr",
        "deployment.num_trian_nodes",
        "orchestrator.group_size",
    ]


def test_a_message_says_what_is_allowed_and_what_to_do():
    text = f"{MINIMAL}\n[deployment]\nnum_train_gpus = 6\nnum_infer_gpus = 4\n"

    assert str(refusal(text)) == (
        "rl.toml: 1 problem\n"
        "  deployment: num_train_gpus 6 + num_infer_gpus 4 = 10 is over gpus_per_node 8 "
        '(lower one, or use type = "multi_node")'
    )


@pytest.mark.parametrize(
    "extra",
    [
        '[trainer.env_vars]\nOPENAI_API_KEY = 1\nB = "sk-canary"',
        "[env_vars]\nHF_TOKEN = 'canary'",
        "[orchestrator.model.client.headers]\nAuthorization = ['canary']",
        "[orchestrator.model.client]\nwait_for_ready_timeout = 'sk-canary'",
        "[orchestrator.model.client.headers]\nAuthorization = 'Bearer canary'",
        "[orchestrator.model.client]\napi_key_var = 'sk-canary'",
        "[orchestrator.heartbeat]\nurl = 'http://user:canary@host/'",
        "[orchestrator.model.client]\nbase_url = 'http://host/v1?api_key=canary'",
        "[orchestrator.heartbeat]\nurl = 'http://user:canary@169.254.169.254/'",
        "[orchestrator.model.client]\nskip_model_check = 'canary0123456789abcdef0123456789abcdef'",
    ],
)
def test_no_message_holds_what_may_be_a_secret(extra: str):
    error = refusal(f"{MINIMAL}\n{extra}\nunknown_canary_holder = 'canary'\n")

    assert error is not None
    assert "canary" not in str(error).replace("unknown_canary_holder", "")
    assert "canary" not in repr(error).replace("unknown_canary_holder", "")


@pytest.mark.parametrize(
    "extra",
    [
        "[env_vars]\nHF_TOKEN = 'x'",
        "[orchestrator.model.client.headers]\nAuthorization = 'Bearer x'",
        "[orchestrator.model.client]\napi_key_var = 'sk-live-1'",
        "[orchestrator.model.client]\nbase_url = 'https://user:pw@host/v1'",
        '[run]\nname = "a\\tb"',
    ],
)
def test_what_may_not_be_brought_in_does_not_stop_a_run_that_has_it(extra: str):
    text = f"{MINIMAL}\n{extra}\n"

    assert refusal(text) is not None
    assert load_stored_config(text).text == text


@pytest.mark.parametrize(
    "extra",
    [
        "[env_vars]\nLD_PRELOAD = 'x'",
        "[orchestrator.model.client]\napi_key_var = 'PADDOCK_X'",
        "[orchestrator.model.client]\nbase_url = 'http://169.254.169.254/'",
        "[orchestrator.heartbeat]\nurl = 'http://user:pw@[::1/'",
    ],
)
def test_what_reaches_into_the_platform_binds_every_run(extra: str):
    with pytest.raises(ConfigError):
        load_stored_config(f"{MINIMAL}\n{extra}\n")


def test_a_credential_in_a_header_is_told_where_it_belongs():
    error = refusal(f"{MINIMAL}\n[orchestrator.model.client.headers]\nX-Auth-Token = 'x'\n")

    assert "orchestrator.model.client.headers.X-Auth-Token" in str(error)
    assert "name its variable in headers_from_env" in str(error)


def test_headers_without_a_credential_pass():
    headers = "X-Team = 'rl'\nAuthorization = 'Bearer EMPTY'\nX-Api-Key = ''"

    assert refusal(f"{MINIMAL}\n[orchestrator.model.client.headers]\n{headers}\n") is None
