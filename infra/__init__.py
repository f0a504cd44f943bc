"""The Pulumi program: how a stack's settings become resources on a target."""
