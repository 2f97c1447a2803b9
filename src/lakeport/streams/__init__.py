"""Structured streams, landed micro-batch by micro-batch."""
