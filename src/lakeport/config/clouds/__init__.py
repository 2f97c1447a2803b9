"""The keys that every destination on a cloud has."""
