"""How long reading and planning a config takes, whole process, against prime-rl's own loader.

`paddock plan` is run on every example config in a fresh Python; the median of a few rounds counts,
and the median file is held against the limit, since a busy machine slows single ones. prime-rl's
time was recorded once on a machine like the one that CI uses; its
loader cannot be part of this project's environment.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "tests" / "data" / "prime-rl" / "configs"

FLOOR_IMPORT_S = 6.9
"""prime-rl 559b447: importing its config classes, cold."""

FLOOR_FILE_S = 8.0
"""prime-rl 559b447: one file from a fresh process to a resolved config."""

MAX_SHARE = 0.2

IMPORT = "import runtime.config, runtime.plan"
PLAN = "from runtime.cli import main; main()"


def main(argv: Sequence[str] | None = None) -> int:
    """Print seconds a file and their share of prime-rl's; 1 where the share is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds a file; the median counts")
    parser.add_argument("--limit", type=int, default=None, help="only the first files")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    files = sorted(CONFIGS.rglob("*.toml"))[: options.limit]
    importing = statistics.median(_seconds(IMPORT) for _ in range(options.rounds))
    times = {
        str(path.relative_to(CONFIGS)): statistics.median(
            _seconds(PLAN, "plan", str(path)) for _ in range(options.rounds)
        )
        for path in files
    }
    median, worst = statistics.median(times.values()), max(times.values())
    result = {
        "files": times,
        "import_s": importing,
        "import_share": importing / FLOOR_IMPORT_S,
        "median_s": median,
        "median_share": median / FLOOR_FILE_S,
        "worst_s": worst,
        "worst_share": worst / FLOOR_FILE_S,
    }
    if options.json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        _print(result)
    return int(max(result["import_share"], result["median_share"]) > MAX_SHARE)


def _print(result: dict) -> None:
    for name, seconds in result["files"].items():
        sys.stdout.write(f"{seconds:7.3f} s  {name}\n")
    sys.stdout.write(
        f"import {result['import_s']:.3f} s, {result['import_share']:.3f} of prime-rl's "
        f"{FLOOR_IMPORT_S} s\n"
        f"file   {result['median_s']:.3f} s, {result['median_share']:.3f} of prime-rl's "
        f"{FLOOR_FILE_S} s; the slowest {result['worst_s']:.3f} s, {result['worst_share']:.3f}\n"
        f"limit  {MAX_SHARE}\n"
    )


def _seconds(code: str, *arguments: str) -> float:
    """Return how long a fresh Python takes; exit code 2 is a refused config, also an answer."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    elapsed = time.perf_counter() - started
    if done.returncode not in (0, 2):
        raise SystemExit(f"{arguments}: exit code {done.returncode}\n{done.stderr}")
    return elapsed


if __name__ == "__main__":
    sys.exit(main())
