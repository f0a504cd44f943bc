"""The local target's model cache: which models are there, where, and how one is added.

A model is a Hugging Face directory (config.json, safetensors, tokenizer). Needs no torch; making
the tiny model runs `runtime.rl.tiny_model` in a process of its own.
"""

import json
from pathlib import Path

from runtime import naming
from runtime.cluster import models_folder
from runtime.errors import NotFoundError

TINY_MODEL = "paddock/tiny-reverse-text"
"""The model that paddock makes itself: it can reverse letters, but is undecided."""

_NAME_FILE = "paddock-model.json"


def find_model(name: str, cache_path: str, *, volume_path: str | None = None) -> Path | None:
    """Return the folder of a model, or None.

    `/volume/x` is looked up on the run's volume, an absolute path as it stands, anything else in
    the model cache.
    """
    if name == "/volume" or name.startswith("/volume/"):
        if volume_path is None:
            return None
        root = Path(volume_path).resolve()
        folder = (root / name.removeprefix("/volume").lstrip("/")).resolve()
        return folder if folder.is_relative_to(root) and is_model(folder) else None
    folder = Path(name) if name.startswith("/") else model_folder(name, cache_path)
    return folder.resolve() if is_model(folder) else None


def is_model(folder: Path) -> bool:
    """Tell whether a folder holds a Hugging Face model."""
    return (folder / "config.json").is_file()


def model_folder(name: str, cache_path: str) -> Path:
    """Return where a model of the cache lies."""
    return models_folder(cache_path) / naming.slug(name)


def cached_models(cache_path: str) -> dict[str, Path]:
    """Return the models of the cache by name."""
    found = {}
    for note in sorted(models_folder(cache_path).glob(f"*.{_NAME_FILE}")):
        name = json.loads(note.read_text())["name"]
        folder = model_folder(name, cache_path)
        if is_model(folder):
            found[name] = folder.resolve()
    return found


def add_model(name: str, folder: Path, cache_path: str) -> Path:
    """Enter a model folder into the cache under a name, by a link, and return the entry.

    Raises NotFoundError where the folder holds no model.
    """
    if not is_model(folder):
        raise NotFoundError(f"{folder} holds no Hugging Face model: config.json is missing")
    entry = model_folder(name, cache_path)
    entry.parent.mkdir(parents=True, exist_ok=True)
    if folder.resolve() != entry.resolve():
        temporary = entry.with_name(f".{entry.name}.link")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(folder.resolve())
        temporary.replace(entry)
    note = entry.with_name(f"{entry.name}.{_NAME_FILE}")
    note.write_text(json.dumps({"name": name}))
    return entry
