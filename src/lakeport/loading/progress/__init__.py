"""Shows what goes on: on a terminal, as lines of a log, in a notebook, or to a function."""

from lakeport.loading.progress.shown import Hook, Progress, shown

__all__ = ["Hook", "Progress", "shown"]
