"""Bytes on their way in: decompressed within limits, decoded, cut into lines."""
