"""What the command line says: for people, or for machines."""
