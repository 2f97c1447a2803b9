"""Shape kernels: what happens to a source's columns on their way into a table."""
