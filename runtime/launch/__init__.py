"""From a RolePlan to what is started: components, addresses, argv, environment and files.

One spelling for the embedded engine and for prime-rl's image. Everything here is pure except
`runtime.launch.local`, which writes a local run's files, and `wrapper.py`, a program of its own.
"""
