"""Stand-in of prime-rl's package in the testbed's image: what resolve.py and torchrun import."""
