"""The control plane's database: SQLite by default, Postgres by URL.

`store` opens it; every other module is one subject, as functions over a connection of
`Store.read` or `Store.write`, so that one transaction may span subjects. Called by the API, the
scheduler, the reconciler, billing and `paddock user|team|key|wallet`; nobody else writes SQL.
"""
