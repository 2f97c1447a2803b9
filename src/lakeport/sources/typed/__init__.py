"""Sources whose files declare their columns' types: Parquet, Arrow IPC and Feather, ORC, Avro."""
