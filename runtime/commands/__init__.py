"""The commands of the CLI, a module for each group; `runtime.cli` puts them into one table."""
