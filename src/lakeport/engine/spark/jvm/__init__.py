"""The JVM that Spark runs in: its Java, its jars, its class archive, its start."""
