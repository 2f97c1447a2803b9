"""Files that tell their columns' types: Arrow IPC and Feather, ORC, Avro."""
