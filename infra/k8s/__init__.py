"""What the kubernetes target is made of: manifests as pure functions, and the resources."""
