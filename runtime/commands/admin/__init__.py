"""`paddock user|team|key|wallet`: who may use the control plane, and with what money.

They work on its database itself, so that the first admin and the first key need no server.
"""
