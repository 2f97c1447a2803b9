"""Where rows come from: each module cuts one kind of source into flushes of batches."""
