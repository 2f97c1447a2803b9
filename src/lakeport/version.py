"""The package's version. Driver and workers compare it, also where it comes in a zip."""

__version__ = "0.1.0"
