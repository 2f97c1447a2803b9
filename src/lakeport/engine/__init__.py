"""The engines that run a load's tasks: Spark, or threads of this process."""
