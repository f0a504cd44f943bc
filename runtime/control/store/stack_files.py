"""The settings files of stacks (Pulumi.<stack>.yaml): plain settings, ciphertext and salt.

They let any server open a run's stack. A file with a secret in clear is refused.
"""

import yaml
from sqlalchemy import Connection, select

from runtime import naming
from runtime.control.store.columns import insert, now
from runtime.control.store.tables import stack_files
from runtime.errors import StoreError
from runtime.stack_settings import SECRET_KEYS


def put_file(connection: Connection, stack: str, text: str) -> None:
    """Store the settings file of a stack; raises StoreError where a secret is in clear in it."""
    clear = _clear_secrets(text)
    if clear:
        raise StoreError(
            f"settings of stack {stack}: {', '.join(clear)} is not encrypted: "
            "set it with `pulumi config set --secret`"
        )
    row = insert(connection, stack_files).values(stack=stack, text=text, updated_at=now())
    changed = row.on_conflict_do_update(
        index_elements=[stack_files.c.stack], set_={"text": text, "updated_at": now()}
    )
    connection.execute(changed)


def get_file(connection: Connection, stack: str) -> str | None:
    """Return the settings file of a stack as it was stored."""
    query = select(stack_files.c.text).where(stack_files.c.stack == stack)
    return connection.execute(query).scalar_one_or_none()


def remove_file(connection: Connection, stack: str) -> None:
    """Forget the settings file of a stack that was removed."""
    connection.execute(stack_files.delete().where(stack_files.c.stack == stack))


def _clear_secrets(text: str) -> list[str]:
    """Return the names of the secret settings that hold a value in clear."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:  # its text would quote the file
        raise StoreError("the settings of a stack are no YAML: write the file again") from None
    config = document.get("config") if isinstance(document, dict) else None
    found = []
    for key in sorted(SECRET_KEYS):
        value = (config or {}).get(f"{naming.PROJECT}:{key}")
        found += _clear(f"{naming.PROJECT}:{key}", value)
    return found


def _clear(name: str, value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, dict):
        if set(value) == {"secure"}:
            return []
        return [found for key in value for found in _clear(f"{name}.{key}", value[key])]
    return [name]
