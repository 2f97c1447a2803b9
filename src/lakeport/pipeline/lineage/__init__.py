"""What each load read and wrote, as OpenLineage's events tell it."""
