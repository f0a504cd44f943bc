"""Stand-in of prime-rl's configuration package."""
