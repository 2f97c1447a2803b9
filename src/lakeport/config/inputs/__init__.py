"""Sources that need more than a name: files that are landed once, databases, taps and tables."""
