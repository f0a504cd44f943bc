"""The resources of the local target, one file each."""
