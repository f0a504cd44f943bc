"""What a run is and what runs it: config, plan, launch, record, supervisor, embedded engine, CLI.

Nothing here imports `infra` or `policies`; the control plane reaches infra only through Pulumi.
"""
