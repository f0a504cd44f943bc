"""The policy pack: pure predicates over resource inputs, and the one module that registers them."""
