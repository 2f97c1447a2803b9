"""Operators, assets and tasks that run loads in Airflow, Dagster and Prefect.

None of the three is a dependency of lakeport: each module is imported where its orchestrator is
installed. docs/orchestrators.md shows how to use them.
"""
