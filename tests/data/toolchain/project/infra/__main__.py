"""Declares one slow thing, and fails when asked to."""

import os

import pulumi
from slow_thing import SlowThing

print("hello from the program")
SlowThing("thing", mark_file=os.environ["MARK_FILE"], seconds=float(os.environ["CREATE_SECONDS"]))
pulumi.export("directory", os.path.relpath(os.getcwd(), pulumi.get_root_directory()))
if failure := os.environ.get("PROGRAM_FAILURE"):
    if failure == "exit":
        raise SystemExit(3)
    if failure == "run-error":
        raise pulumi.RunError("refused in one line")
    raise ValueError("the program is broken")
