"""Spark SQL over what tasks read: the frame, the query on it, and what its plan tells."""
