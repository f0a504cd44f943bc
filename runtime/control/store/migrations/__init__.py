"""The upgrades of the database, run by `runtime.control.store.schema`."""
