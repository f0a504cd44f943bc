"""How long a component has between SIGTERM and SIGKILL: a trainer may be writing a checkpoint."""

from pathlib import Path

import pytest

from runtime.launch import wrapper
from tests.runtime.local.test_wrapper import Wrapped, wrapped
from tests.waiting import wait_for

__all__ = ["wrapped"]

WRITES = (
    "import os, signal, time\n"
    "def end(*_): time.sleep({s}); os.write(1, b'saved'); os._exit(0)\n"
    "signal.signal(signal.SIGTERM, end); os.write(1, b'up'); time.sleep(600)"
)


@pytest.fixture(autouse=True)
def hasty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let components that are no trainers have half a second."""
    path, text = tmp_path / "hasty.py", Path(wrapper.__file__).read_text()
    assert "\nGRACE_S = 10.0" in text
    path.write_text(text.replace("\nGRACE_S = 10.0", "\nGRACE_S = 0.5"))
    monkeypatch.setattr(wrapper, "__file__", str(path))


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_trainer_has_time_to_write_whatever_ends_it(wrapped: Wrapped, is_asked: bool):
    process = wrapped.start(WRITES.format(s=3))
    wait_for(lambda: b"up" in wrapped.log(), timeout_s=60)

    if is_asked:
        process.terminate()
    else:
        wrapped.peer("inference-0", outcome="ended", reason="it was asked to by SIGTERM", end=1.0)

    process.wait(60)
    assert b"saved" in wrapped.log()
    assert wrapped.status()["outcome"] == "ended"


def test_another_component_has_less_time(wrapped: Wrapped):
    process = wrapped.start(WRITES.format(s=600), component="inference-0")
    wait_for(lambda: b"up" in wrapped.log("inference-0"), timeout_s=60)

    process.terminate()

    process.wait(40)  # a trainer's time is 60 s
    assert wrapped.status("inference-0")["signal"] == "SIGKILL"
