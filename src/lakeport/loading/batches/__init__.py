"""Batches on their way: columns, kernels, what stands for several, how they are shared out."""
