"""Lies in the place of a hidden package, for it not to be an empty one: its import ends as if it were not installed."""

raise ModuleNotFoundError(f"No module named {__name__!r}", name=__name__)
