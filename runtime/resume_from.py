"""ResumeFrom: the checkpoint of another run that a new run starts with, as `RUN` or `RUN:STEP`.

Pure. The text stands in the setting `paddock:resumeFrom`, in a request's `resumeFrom` and in the
plan; whether the checkpoint is there is admission's question, and that of whoever copies it
(`runtime.launch.first_checkpoint`).
"""

from dataclasses import dataclass

from runtime import naming


@dataclass(frozen=True, kw_only=True, slots=True)
class ResumeFrom:
    """Another run, and the step of its checkpoint; None = its last one."""

    run_id: str
    step: int | None = None


def parse_resume_from(text: str) -> ResumeFrom:
    """Return what a text names; raises ValueError for one that is neither RUN nor RUN:STEP."""
    run_id, colon, step = text.partition(":")
    is_step = step.isascii() and step.isdigit() and int(step[:18]) > 0
    if not naming.is_run_id(run_id) or (colon and not (is_step and len(step) < 10)):
        raise ValueError(f"{text[:80]!r} is neither RUN nor RUN:STEP, for example run-123:40")
    return ResumeFrom(run_id=run_id, step=int(step) if colon else None)
