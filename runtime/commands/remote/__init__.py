"""`paddock train`, `volumes`, `login`, `whoami`: runs through a server, by its API.

What the API needs is imported when a command runs: the other commands start without it.
"""
