"""The server's log: one line of JSON a record, whatever the record says."""

import json
import logging

import pytest

from runtime.commands.serve import REQUEST_LOGGER, json_lines
from runtime.control.request_log import LOGGER


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
