"""The embedded engine: asynchronous GRPO in four kinds of process, small enough to read.

Keeps prime-rl's run directory, files, endpoints and console lines, so that whatever observes a run
need not know which engine it is. Started by `runtime.launch`, one module a component: `trainer`,
`inference`, `orchestrator`, `env_server`.
"""
