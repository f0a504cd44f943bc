"""Stand-in of prime-rl's RL trainer package."""
