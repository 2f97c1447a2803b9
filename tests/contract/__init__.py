"""One suite of promises, run unchanged on every destination and format."""
