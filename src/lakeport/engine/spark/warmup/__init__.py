"""What makes Spark quick: workers and a commit warmed up for each session, classes for each JVM."""
