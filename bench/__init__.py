"""Measures lakeport beside its peers on the same data, in one run; see `python -m bench --help`."""
