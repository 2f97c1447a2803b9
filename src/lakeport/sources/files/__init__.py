"""Files as a source: found, and what their folders and declarations say of their columns."""
