"""`[deployment]`: how many GPUs or nodes the trainer and the inference engines get.

The sums over nodes and replicas are properties here, so that plan and derived world sizes agree.
"""

from typing import Annotated, Literal

from pydantic import Field

from runtime.config.block import Block, Count


class SingleNodeDeployment(Block):
    """One machine that trainer and inference share."""

    type: Literal["single_node"] = "single_node"
    """Picks this variant; may be left out."""

    gpus_per_node: Count = 8
    """GPUs of the machine; trainer and inference together may not ask for more."""

    num_train_gpus: Count = 1
    """GPUs of the trainer, one process each."""

    num_infer_gpus: Annotated[int, Field(ge=0)] = 1
    """GPUs of the inference engines; 0 only where the trainer's data is fake."""

    @property
    def total_train_gpus(self) -> int:
        """Return the GPUs of the trainer."""
        return self.num_train_gpus

    @property
    def total_infer_gpus(self) -> int:
        """Return the GPUs of all inference engines."""
        return self.num_infer_gpus


class MultiNodeDeployment(Block):
    """Whole nodes for the trainer and whole nodes for each inference replica."""

    type: Literal["multi_node"] = "multi_node"
    """Picks this variant; must be written."""

    gpus_per_node: Count = 8
    """GPUs of every node of the run."""

    num_train_nodes: Count
    """Nodes of the trainer."""

    num_infer_nodes: Annotated[int, Field(ge=0)] | None = None
    """Nodes of one inference replica; unset = what `[inference.deployment]` asks for, else 1, and 0
    without `[inference]`."""

    num_infer_replicas: Count = 1
    """Copies of the inference deployment behind one router."""

    nodes_per_fsdp_group: Count | None = None
    """Trainer nodes that shard one copy of the weights; unset = all of them. Divides
    `num_train_nodes`; the quotient becomes `trainer.model.dp_replicate`."""

    orchestrator_on_inference: bool = False
    """Place the orchestrator on an inference node instead of the first trainer node."""

    @property
    def total_train_gpus(self) -> int:
        """Return the GPUs of all trainer nodes."""
        return self.num_train_nodes * self.gpus_per_node

    @property
    def total_infer_nodes(self) -> int:
        """Return the inference nodes of all replicas, 0 until `num_infer_nodes` is filled in."""
        return (self.num_infer_nodes or 0) * self.num_infer_replicas

    @property
    def total_infer_gpus(self) -> int:
        """Return the GPUs of all inference nodes."""
        return self.total_infer_nodes * self.gpus_per_node


Deployment = Annotated[SingleNodeDeployment | MultiNodeDeployment, Field(discriminator="type")]
