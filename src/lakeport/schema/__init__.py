"""Types of columns: as sources declare them, as tables store them, and how they evolve."""
