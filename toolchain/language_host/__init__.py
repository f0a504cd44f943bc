"""The processes that the Pulumi engine starts for Python, for an engine that came without them.

`host` runs programs and policy packs, `plugin` runs a module of the Pulumi SDK as a plugin, and
`engine_watch` ends either of them when its engine is gone. `make setup` writes the executables that
start them (`toolchain.engine_bin`).
"""
