"""The base of component resources: one type token, children by `child_opts`, outputs once."""

from collections.abc import Mapping
from typing import Any

import pulumi

from runtime import naming


class Component(pulumi.ComponentResource):
    """A component resource whose type token is `paddock:<module>:<kind>`."""

    def __init__(self, module: str, kind: str, name: str) -> None:
        """Register the component; subclasses then create children with `child_opts`."""
        super().__init__(f"{naming.PROJECT}:{module}:{kind}", name)

    def child_opts(self, *depends_on: pulumi.Resource) -> pulumi.ResourceOptions:
        """Return the options of a child: this component as its parent, and what it depends on."""
        return pulumi.ResourceOptions(parent=self, depends_on=list(depends_on))

    def finish(self, outputs: Mapping[str, Any]) -> None:  # Any: pulumi.Input values
        """Register the outputs; called once, last, by the subclass."""
        self.register_outputs(dict(outputs))
