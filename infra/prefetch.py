"""Asks the engine for what takes it long, before the program's own modules are loaded.

A run's program needs the outputs of its cluster's stack, for which the engine derives that stack's
key, and a process that runs the dynamic provider. Both take as long as the imports do, in other
processes. The answers are not used: whoever needs them asks again, and is answered at once or told
what is wrong. So what fails here changes nothing.
"""

import pulumi
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_monitor

_STACKS = ("cluster", "volume")
"""Settings that name a stack whose outputs the program reads."""

_NO_FUNCTION = "pulumi-python:dynamic:none"
"""A function of the dynamic provider, which has none: the engine has to start it to know."""


def prefetch() -> list[object]:
    """Ask, and return the questions; one that is dropped is withdrawn."""
    project = f"{pulumi.get_organization()}/{pulumi.get_project()}"
    named = filter(None, map(pulumi.Config().get, _STACKS))
    return [
        *(_ask("pulumi:pulumi:readStackOutputs", name=f"{project}/{stack}") for stack in named),
        _ask(_NO_FUNCTION),
    ]


def _ask(token: str, **arguments: str) -> object:
    inputs = Struct()
    inputs.update(arguments)
    request = resource_pb2.ResourceInvokeRequest(tok=token, args=inputs)
    monitor = get_monitor()
    assert monitor is not None, "the engine runs the program"
    return monitor.Invoke.future(request)
