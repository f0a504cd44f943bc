"""What is not prime-rl's in a file: dispatch keys, hosted spellings; and what is said of a file."""

import pytest

from runtime.config import DispatchFlags, DispatchKeys, load_config, load_stored_config
from runtime.config.dispatch import EnvFile
from tests.runtime.config.examples import MINIMAL, paths_of, refusal, said_about

WANDB = frozenset({"WANDB_API_KEY"})


def codes(text: str, secret_names: frozenset[str] = frozenset()) -> list[str]:
    return [notice.code for notice in load_config(text, secret_names=secret_names).notices]


def test_dispatch_keys_have_defaults():
    dispatch = load_config(MINIMAL).dispatch

    assert (dispatch.image_tag, dispatch.gpu_type, dispatch.volume) == ("main", None, None)


def test_dispatch_keys_of_the_file_win_over_defaults_and_flags_over_both():
    text = f'image_tag = "v1"\ngpu_type = "H200_141GB"\nvolume = "a"\nname = "n"\n{MINIMAL}'

    assert load_config(text).dispatch == DispatchKeys(
        image_tag="v1", gpu_type="H200_141GB", volume="a", name="n"
    )
    flags = DispatchFlags(image_tag="v2", gpu_type="B200_180GB", volume="b", name="m")
    assert load_config(text, flags=flags).dispatch == DispatchKeys(
        image_tag="v2", gpu_type="B200_180GB", volume="b", name="m"
    )


@pytest.mark.parametrize("value", ["1", "0.5", "true", "[]", "{ a = 1 }", '""', '" x"'])
def test_a_dispatch_key_that_is_no_text_is_refused(value: str):
    assert paths_of(f"image_tag = {value}\n{MINIMAL}") == ["image_tag"]


def test_keys_of_the_sending_client_are_taken_out():
    text = f'env_files = ["b.env", "c.env"]\nenv_file = "a.env"\ntype = "rl"\n{MINIMAL}'

    assert load_config(text).dispatch.env_files == (
        EnvFile(loc=("env_file",), path="a.env"),
        EnvFile(loc=("env_files", 0), path="b.env"),
        EnvFile(loc=("env_files", 1), path="c.env"),
    )


@pytest.mark.parametrize("value", ['"my-branch"', '""', "1"])
def test_another_source_than_that_of_an_image_is_refused(value: str):
    error = refusal(f"source_ref = {value}\nmax_stps = 1\n{MINIMAL}")

    assert error is not None
    assert [problem.path for problem in error.problems] == ["source_ref", "max_stps"]
    assert str(error.problems[0]) == (
        "source_ref: not served here (choose a build of prime-rl with image_tag)"
    )


def test_a_run_that_exists_goes_on_with_the_source_that_it_was_given():
    text = f'source_ref = "my-branch"\n{MINIMAL}'

    assert load_stored_config(text).text == text


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("env_file", "read by `paddock train`, where it dispatches; else pass --env-file"),
        ("env_files", "read by `paddock train`, where it dispatches; else pass --env-file"),
        (
            "volume_size",
            "the size of a volume that `paddock train` makes; one that is there keeps its own",
        ),
    ],
)
def test_a_dispatch_key_without_effect_is_noticed(key: str, message: str):
    loaded = load_config(f'{key} = "1Ti"\n{MINIMAL}')

    assert [str(one) for one in loaded.notices] == [f"{key}: {message}"]


def test_hosted_spellings_are_moved_with_a_notice_each():
    text = MINIMAL.replace("group_size = 8", "").replace(
        "[[orchestrator.train.source]]",
        "[orchestrator.train]\ngroup_size = 4\n[[orchestrator.train.source]]",
    )
    text = f'name = "mine"\n{text}\n[wandb]\nproject = "p"\n'

    loaded = load_config(text, secret_names=WANDB)

    assert loaded.config.run.name == "mine"
    assert loaded.config.orchestrator.group_size == 4
    assert loaded.config.trainer.monitors.wandb is not None
    assert loaded.config.trainer.monitors.wandb.project == "p"
    assert [(notice.code, notice.path) for notice in loaded.notices] == [
        ("spelling", "name"),
        ("spelling", "orchestrator.train.group_size"),
        ("spelling", "wandb"),
    ]


@pytest.mark.parametrize("component", ["trainer", "orchestrator"])
def test_wandb_below_a_component_is_a_hosted_spelling(component: str):
    text = f"{MINIMAL}\n[monitors.wandb]\n".replace(
        f"[{component}]\n", f'[{component}.wandb]\nentity = "e"\n[{component}]\n'
    )

    config = load_config(text, secret_names=WANDB).config

    wandb = getattr(config, component).monitors.wandb
    assert wandb.entity == "e"


def test_an_error_in_a_moved_or_copied_key_is_at_the_users_path():
    moved = MINIMAL.replace("group_size = 8", "").replace(
        "[[orchestrator", '[orchestrator.train]\ngroup_size = "x"\n[[orchestrator'
    )

    assert paths_of(moved) == ["orchestrator.train.group_size"]
    assert paths_of(f"name = 3\n{MINIMAL}") == ["name"]
    assert paths_of(f"{MINIMAL}\n[wandb]\nproject = 3\n") == ["wandb.project"]
    assert paths_of(f"{MINIMAL}\n[ckpt]\ninterval = 0\n") == ["ckpt.interval"]
    assert paths_of(f"seq_len = 3\n{MINIMAL}") == ["seq_len"]


def test_two_spellings_may_agree_but_not_differ():
    assert refusal(f'name = "a"\n{MINIMAL}\n[run]\nname = "a"\n') is None
    assert paths_of(f'name = "a"\n{MINIMAL}\n[run]\nname = "b"\n') == ["name"]


def test_wandb_is_stripped_without_its_key():
    text = f"{MINIMAL}\n[monitors.wandb]\n"

    stripped = load_config(text)
    kept = load_config(text, secret_names=WANDB)

    assert [notice.code for notice in stripped.notices] == ["wandb_stripped"]
    for config in (stripped.config, kept.config):
        tables = [config.monitors, config.trainer.monitors, config.orchestrator.monitors]
        assert {table.wandb is None for table in tables} == {config is stripped.config}


def test_what_is_ignored_is_said():
    text = f'output_dir = "/x"\ndry_run = true\n{MINIMAL}\n[slurm]\npre_run_command = "rm"\n'

    loaded, said = said_about(text)

    assert loaded is not None
    assert {notice.path for notice in loaded.notices} == {"output_dir", "dry_run", "slurm"}
    assert "never run" in said


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (MINIMAL.replace("group_size = 8", ""), "group_of_one"),
        (MINIMAL.replace("[inference]", ""), "no_inference"),
        (f"{MINIMAL}\n[inference.server]\nport = 9000\n", "wired"),
        (f'{MINIMAL}\n[env_vars]\nMY_SETTING = "sk-abc"\n', "secret_in_file"),
        (f"{MINIMAL}\n[trainer.loss]\nkl_tau = inf\n", "infinite"),
        (MINIMAL.replace("env.agent.h", "env.rounds = 3\nenv.agent.h"), "unchecked"),
        (
            f'{MINIMAL}\n[deployment]\ntype = "multi_node"\nnum_train_nodes = 1\n',
            "spelling",
        ),
    ],
)
def test_what_is_doubtful_is_accepted_with_a_notice(text: str, code: str):
    assert code in codes(text)


def test_unknown_keys_are_notices_where_they_are_allowed():
    text = f"new_key = 1\n{MINIMAL}\n[trainer.optim]\nnovel = {{ a = 1 }}\n"

    loaded = load_config(text, allow_unknown_fields=True)

    assert paths_of(text) == ["trainer.optim.novel", "new_key"]
    assert [notice.path for notice in loaded.notices] == ["trainer.optim.novel", "new_key"]
    assert loaded.text == text


def test_a_notice_reads_as_a_line():
    notices = load_config(f'name = "x"\n{MINIMAL}').notices

    assert [str(notice) for notice in notices] == ["name: read as prime-rl's run.name"]
