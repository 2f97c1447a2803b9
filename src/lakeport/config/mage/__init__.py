"""Mage's own config: profiles, templates, catalogs, overrides for streams, streaming sinks."""
