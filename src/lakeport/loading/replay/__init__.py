"""Records that were set aside: listed, and landed once they are right."""
