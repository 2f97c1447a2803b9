"""Storages: one cloud (or the local disk) each, behind `model.Storage`."""
