"""Avro object container files: their blocks, their schemas, their records as Arrow batches."""
