"""The pages under docs/: their examples run, their links lead somewhere, their tables are true."""
