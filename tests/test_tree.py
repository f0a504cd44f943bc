"""The tree's own rules (CONTRIBUTING.md): sizes, names, docstrings, and what no file may hold."""

import ast
import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("infra", "runtime", "policies", "toolchain")
FOLDERS = (*PACKAGES, "tests", "bench")
ON_PATH = ("infra", "policies")  # Pulumi puts these two on sys.path[0] itself
IGNORED = {"__pycache__", "runs", "volumes", "dist"}
HIDDEN_OURS = {".ci"}

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 5
LONG_FILES = {
    "runtime/launch/files.py": "one file, so that a pod can mount it alone",
    "runtime/launch/wrapper.py": "one file, so that a pod can mount it alone",
}
MANY_PARAMETERS = {
    "runtime/commands": "a command's parameters are its flags",
    "runtime/rl/tasksets/inproc_null": "overrides a method of verifiers",
}
VAGUE_NAME = re.compile(r"(utils?|helpers?|common|managers?|base_.*|.*_(utils?|helpers?|manager))")

# In pieces, so that this file does not hold what it forbids.
UNNUMBERED = re.compile("TO" + r"DO(?!\(#\d+\))")
HOME_PATH = re.compile("/" + r"(?:root|home/[a-z]\w*|Users/\w+|work)/")
REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "crates" + ".io",
    "npm" + "js.org",
    "npm" + "js.com",
    "proxy" + ".golang.org",
    "repo1" + ".maven",
    "deb" + ".debian.org",
]
REGISTRY_VARIABLES = (
    "PIP_INDEX_URL",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "GOPROXY",
    "NPM_CONFIG_REGISTRY",
)

Found = Iterator[str]


def sources(*folders: str) -> list[Path]:
    """Return the Python files of the given folders."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if IGNORED.isdisjoint(path.relative_to(ROOT).parts))


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every file of the tree that is text, with its text."""
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if name in HIDDEN_OURS or not _is_ignored(name)]
        for name in sorted(files):
            path = Path(folder, name)
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def in_code(check: Callable[[ast.Module], Found], *folders: str) -> list[str]:
    """Return what a check finds in the syntax trees of the folders' files, with its place."""
    return [
        f"{path.relative_to(ROOT)}: {what}"
        for path in sources(*folders)
        for what in check(ast.parse(path.read_text(encoding="utf-8")))
    ]


def in_text(pattern: re.Pattern[str]) -> list[str]:
    """Return the places of a pattern in all text files."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        for match in pattern.finditer(line)
    ]


def test_no_file_is_longer_than_300_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in sources(*FOLDERS)}

    found = [
        f"{path.relative_to(ROOT)}: {length} lines"
        for path, length in lengths.items()
        if length > MAX_FILE_LINES and path.relative_to(ROOT).as_posix() not in LONG_FILES
    ]

    assert not found, "\n".join(map(str, found))


def test_no_function_is_longer_than_60_lines() -> None:
    def check(tree: ast.Module) -> Found:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    yield f"{node.name} has {length} lines"

    found = in_code(check, *FOLDERS)

    assert not found, "\n".join(found)


def test_no_function_has_more_than_five_parameters() -> None:
    def check(tree: ast.Module) -> Found:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                given = [arg for arg in named if arg.arg not in {"self", "cls"}]
                if len(given) > MAX_PARAMETERS:
                    yield f"{node.name} has {len(given)} parameters"

    found = [
        place for place in in_code(check, *PACKAGES) if not place.startswith(tuple(MANY_PARAMETERS))
    ]

    assert not found, "\n".join(found)


def test_every_module_says_what_it_is() -> None:
    def check(tree: ast.Module) -> Found:
        if tree.body and not ast.get_docstring(tree):
            yield "no module docstring"

    found = in_code(check, *FOLDERS)

    assert not found, "\n".join(found)


def test_every_public_name_has_a_docstring() -> None:
    def check(tree: ast.Module) -> Found:
        for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
            is_private = isinstance(owner, ast.ClassDef) and owner.name.startswith("_")
            for node in owner.body:
                named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                if named and not is_private and not _is_private(node) and not _has_doc(node):
                    yield f"{node.name} has no docstring"

    found = in_code(check, *PACKAGES)

    assert not found, "\n".join(found)


def test_no_module_has_a_vague_name() -> None:
    found = [path for path in sources(*FOLDERS) if VAGUE_NAME.fullmatch(path.stem)]

    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("folder", ON_PATH)
def test_nothing_on_the_programs_path_hides_a_library(folder: str) -> None:
    ours = {*PACKAGES, "tests"}
    libraries = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()} - ours
    names = {path.stem for path in (ROOT / folder).iterdir() if not path.name.startswith("__")}

    assert names & libraries == set()


def test_the_wrapper_needs_the_standard_library_only() -> None:
    tree = ast.parse((ROOT / "runtime" / "launch" / "wrapper.py").read_text())
    imported = {name.split(".")[0] for node in ast.walk(tree) for name in _imported(node)}

    assert imported - sys.stdlib_module_names == set()


def test_code_is_ascii() -> None:
    found = [path for path in sources(*FOLDERS) if not path.read_text("utf-8").isascii()]

    assert not found, "\n".join(map(str, found))


def test_every_note_of_work_to_do_names_an_issue() -> None:
    found = in_text(UNNUMBERED)

    assert not found, "\n".join(found)


def test_no_file_names_a_home_directory() -> None:
    found = in_text(HOME_PATH)

    assert not found, "\n".join(found)


def test_no_file_names_a_package_registry() -> None:
    urls = [os.environ.get(variable, "") for variable in REGISTRY_VARIABLES]
    mirrors = {host for url in urls if (host := urlsplit(url).hostname) and "." in host}

    found = in_text(re.compile("|".join(map(re.escape, {*REGISTRIES, *mirrors}))))

    assert not found, "\n".join(found)


def _is_ignored(folder: str) -> bool:
    return folder.startswith(".") or folder in IGNORED


def _is_private(node: ast.stmt) -> bool:
    name = getattr(node, "name", "")
    return name.startswith("_")


def _has_doc(node: ast.stmt) -> bool:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    decorators = {ast.unparse(item) for item in node.decorator_list}
    is_override = bool({"override", "overload"} & decorators)
    return bool(ast.get_docstring(node)) or is_override


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []
