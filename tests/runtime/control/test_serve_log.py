"""The server's log: one line of JSON a record, whatever the record says."""

import ast
import json
import logging
from pathlib import Path

import pytest

from runtime.commands.serve import REQUEST_LOGGER, json_lines
from runtime.control.request_log import LOGGER

CONTROL = Path(__file__).parents[3] / "runtime" / "control"
ABOUT_RUNS = ("acts", "billing", "operator", "promotions", "reconciler", "run_captures")
RUN = "ujqora7080laplw6fsj2gt59"


@pytest.mark.parametrize("message", ["{x} is torn", '{"a": 1}', "{", "plain"])
def test_what_a_module_logs_is_a_message(message: str) -> None:
    line = json.loads(json_lines().format(record("runtime.control", message)))

    assert (line["message"], line["logger"]) == (message, "runtime.control")


def test_a_line_of_the_request_log_is_merged() -> None:
    line = json.loads(json_lines().format(record(LOGGER.name, '{"status": 200}')))
    failed = json.loads(json_lines().format(record(LOGGER.name, "request r1 failed")))

    assert LOGGER.name == REQUEST_LOGGER
    assert (line["status"], "message" in line) == (200, False)
    assert failed["message"] == "request r1 failed"


def record(name: str, message: str) -> logging.LogRecord:
    """Return a record as a logger makes it."""
    return logging.LogRecord(name, logging.INFO, __file__, 1, message, None, None)


def test_a_line_about_a_run_has_it_as_a_field() -> None:
    logger = logging.getLogger("runtime.control")
    about = logger.makeRecord(
        "runtime.control.acts", logging.INFO, __file__, 1, "it ends", (), None, extra={"run": RUN}
    )

    assert json.loads(json_lines().format(about))["run"] == RUN
    assert "run" not in json.loads(json_lines().format(record("runtime.control", "a pass failed")))


@pytest.mark.parametrize("name", ABOUT_RUNS)
def test_what_names_a_run_in_the_log_gives_it_as_a_field(name: str) -> None:
    tree = ast.parse((CONTROL / f"{name}.py").read_text())

    lines = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and is_about_a_run(call)]

    assert lines
    for call in lines:
        fields = [ast.unparse(one.value) for one in call.keywords if one.arg == "extra"]
        assert "'run'" in "".join(fields), f"{name}.py:{call.lineno}"


def is_about_a_run(call: ast.Call) -> bool:
    """Tell whether a call writes a log line that names a run."""
    words = ast.unparse(call)
    return words.startswith("_LOG.") and "run_id" in words
