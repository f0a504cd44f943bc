"""What drives Pulumi: stacks and their settings; the control plane's home."""
