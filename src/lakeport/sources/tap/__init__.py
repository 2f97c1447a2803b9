"""Singer taps that lakeport starts, and whose STATE the tables remember."""
