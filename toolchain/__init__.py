"""What a machine needs before paddock runs: the Pulumi engine, its Python host, `make setup`.

Nothing in `infra`, `runtime` or `policies` imports this package; it is not part of the wheel.
"""
