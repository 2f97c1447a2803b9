"""Output of the commands: text and tables for people, or JSON."""
