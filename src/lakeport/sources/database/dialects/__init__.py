"""What databases do differently: one module for each that is known, and `base` for all others."""
