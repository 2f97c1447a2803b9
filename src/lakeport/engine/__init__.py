"""Where the tasks of a load run: on Spark, or in threads of this process."""
