"""Entry point of `make setup`: refuse at once what cannot work, then install.

With `kubernetes` as its argument it provides the Kubernetes plugin, after the rest. Its syntax is
that of an old Python 3, so that it can say what is wrong; standard library only.
"""

import os
import shutil
import subprocess
import sys

SUPPORTED = ((3, 11), (3, 12))


def main(arguments: "list[str]") -> int:
    """Check the platform and the interpreter, then set everything up."""
    if not sys.platform.startswith("linux"):
        message = f"paddock supports Linux only, and this is {sys.platform}: use a Linux machine"
        print(message, file=sys.stderr)
        return 1
    if sys.version_info[:2] not in SUPPORTED:
        return _hand_over(arguments)
    if arguments == ["kubernetes"]:
        from toolchain.kubernetes_build import install_plugin

        return install_plugin()
    if arguments:
        print("usage: python -m toolchain.setup [kubernetes]", file=sys.stderr)
        return 2
    from toolchain.installation import install

    return install()


def _hand_over(arguments: "list[str]") -> int:
    """Start again with a Python that is supported, or say which ones are."""
    for major, minor in SUPPORTED:
        candidate = shutil.which(f"python{major}.{minor}")
        if candidate and subprocess.call([candidate, "-c", ""], stderr=subprocess.DEVNULL) == 0:
            command = [candidate, "-m", "toolchain.setup", *arguments]
            return subprocess.call(command, env=dict(os.environ))
    found = ".".join(str(number) for number in sys.version_info[:2])
    message = (
        f"paddock needs Python 3.11 or 3.12, and this is {found}: install one of them, or name it "
        "with `make setup PYTHON=/path/to/python3.12`"
    )
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
