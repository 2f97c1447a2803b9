"""The JVM that Spark runs in: found, fetched, started."""
