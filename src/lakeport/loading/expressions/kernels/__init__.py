"""What each function of Spark's gives, by Arrow's: arrays and scalars in and out."""
