"""Runs a module of the Pulumi SDK (`pulumi.dynamic`, `pulumi.policy`) that ends with its parent.

Started as `python -u -P -m toolchain.language_host.plugin MODULE ARGS...` by the executables that
`make setup` writes, and by the language host for a policy pack.
"""

import os
import runpy
import sys

from toolchain.language_host.engine_watch import end_with_parent


def main() -> None:
    """Run the module named by the first argument as `__main__`, with the rest as its arguments."""
    end_with_parent()
    module_name, *arguments = sys.argv[1:]
    sys.path.insert(
        0, os.getcwd()
    )  # as `python -m` does: a provider's class is found by its module
    sys.argv = [module_name, *arguments]
    runpy.run_module(module_name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
