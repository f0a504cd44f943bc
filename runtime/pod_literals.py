"""Values that a container gets as they stand: what Kubernetes would expand is escaped. Pure.

Kubernetes reads `$(NAME)` in arguments and environment values as a reference, to secrets too, and
`$$` as one `$`. Every manifest that holds a value from outside passes it through here.
"""


def literal(value: str) -> str:
    """Return a value as it must stand in a manifest to arrive byte for byte: each `$` doubled."""
    return value.replace("$", "$$")
