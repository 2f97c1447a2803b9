"""Tables as the source of another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from lakeport.config.classes import config_class, destination_of, table_destination
from lakeport.config.inputs.base import Input


class TablesSource(Input):
    """Delta tables: whole, or the rows that came since the target's last load."""

    tables: Mapping[str, str] = Field(
        min_length=1,
        description="Names for `sql`, and where each table is: a path or a URI. In a lake's file, "
        "a list of its loads.",
    )
    incremental: bool = Field(
        default=False, description="Only rows that came since the target's last load."
    )

    @property
    def jars(self) -> frozenset[str]:
        """What Spark needs to read the tables (`spark.jvm.versions`)."""
        schemes = {place.partition("://")[0] for place in self.tables.values() if "://" in place}
        others = {table_destination(destination_of(scheme)) for scheme in schemes} - {""}
        found = {jar for name in others for jar in config_class(name).delta_jars}
        return frozenset({"delta", *found})

    @field_validator("tables", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """A list of places gets the names that their last parts are."""
        if isinstance(value, str):
            value = [value]
        if isinstance(value, (list, tuple)):
            return {str(place).rstrip("/").rpartition("/")[2]: str(place) for place in value}
        return value
