"""A `pulumi` earlier on PATH that records its argv, fails where it is told to, and is the real one.

A folder without the marker of our own engine counts as a user's official installation, so this
stands before it for `paddock` too.
"""

import shlex
from pathlib import Path

from runtime.toolchain import engine_bin_dir, find_engine


def make_recorder(folder: Path, *, fails_at: str = "") -> Path:
    """Make the folder to put in front of PATH; argv of every call goes to `calls` in it."""
    folder.mkdir()
    pulumi = find_engine().pulumi
    hosts = [path for path in pulumi.parent.glob("pulumi-*")]
    hosts = hosts or list(engine_bin_dir().glob("pulumi-*"))
    for host in hosts:
        (folder / host.name).symlink_to(host)
    script = [
        "#!/bin/sh",
        f'printf "%s\\n" "$*" >> {shlex.quote(str(folder / "calls"))}',
    ]
    if fails_at:
        script += [
            f'case "$*" in *{shlex.quote(fails_at)}*) echo "error: no luck" >&2; exit 7;; esac'
        ]
    script += [f'exec {shlex.quote(str(pulumi))} "$@"']
    (folder / "pulumi").write_text("\n".join(script) + "\n")
    (folder / "pulumi").chmod(0o755)
    return folder
