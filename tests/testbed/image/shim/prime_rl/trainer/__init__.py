"""Stand-in of prime-rl's trainer package."""
