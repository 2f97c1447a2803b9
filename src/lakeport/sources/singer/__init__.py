"""Singer: a tap's messages -> flushes of batches."""
