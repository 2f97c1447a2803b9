"""What batches have in common: their columns, and what stands for several of them."""
