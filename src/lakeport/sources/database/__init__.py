"""Tables and queries of databases: Arrow batches, which tasks read from one snapshot."""
