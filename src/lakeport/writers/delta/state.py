"""What a Delta table is at one version. No Spark here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeport.schema.marks import opened
from lakeport.schema.sparktypes import from_spark_json
from lakeport.writers.delta.schema import MAPPING_MODE

_HONOURED = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "allowColumnDefaults",
        "timestampNtz",
        "typeWidening",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_FILLED = ("delta.generationExpression", "delta.identity.", "CURRENT_DEFAULT")
_RULES = (*_FILLED, "delta.invariants")
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one version.

    Attributes:
        version: the version.
        metadata: the `metaData` action.
        protocol: the `protocol` action.
        clustering: the columns by which it is clustered.
    """

    version: int
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    clustering: tuple[str, ...] = ()

    def plans_as(self, other: TableState) -> bool:
        """Whether what was planned for another state holds for this one.

        The two may have been read in different ways, which spell absent values differently.
        """
        mine, theirs = (
            (one.schema_json, one.partition_columns, one.properties, one.features)
            for one in (self, other)
        )
        return mine == theirs

    @property
    def schema_json(self) -> Mapping[str, Any]:
        """The schema as Delta's JSON."""
        return dict(json.loads(self.metadata["schemaString"]))

    @property
    def schema(self) -> pa.Schema:
        """The columns, partition columns included."""
        return from_spark_json(self.metadata["schemaString"])

    @property
    def open_schema(self) -> pa.Schema:
        """The columns, with the types of `lakeport.schema.nested` where there was no value yet."""
        return opened(self.schema_json, self.schema)

    @property
    def partition_schema(self) -> pa.Schema:
        """The partition columns, whatever types the others have."""
        fields = [f for f in self.schema_json["fields"] if f["name"] in self.partition_columns]
        return from_spark_json(json.dumps({"type": "struct", "fields": fields}))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns."""
        return tuple(self.metadata["partitionColumns"])

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return dict(self.metadata.get("configuration") or {})

    @property
    def features(self) -> frozenset[str]:
        """Names of the table features that the protocol lists."""
        listed = (self.protocol.get(f"{kind}Features") or () for kind in ("reader", "writer"))
        return frozenset(name for names in listed for name in names)

    @property
    def mapped(self) -> bool:
        """Whether data files have other column names than the table."""
        return self.properties.get(MAPPING_MODE, "none") != "none"

    @property
    def filled(self) -> frozenset[str]:
        """The columns whose values the table makes itself where a batch lacks them."""
        return frozenset(
            field["name"]
            for field in self.schema_json["fields"]
            if any(key.startswith(_FILLED) for key in field["metadata"])
        )

    @property
    def needs_spark(self) -> tuple[str, ...]:
        """What only Spark's own writer can honour: rules about rows, and features unknown here."""
        found = sorted(self.features - _HONOURED)
        found += [name for name in self.properties if name.startswith("delta.constraints.")]
        if self.properties.get(MAPPING_MODE) == "id":
            found.append("column mapping by id")
        if any(self.properties.get(f"delta.enableIcebergCompatV{n}") == "true" for n in (1, 2, 3)):
            found.append("Iceberg compatibility")
        if self.properties.get("delta.enableRowTracking") == "true":
            found.append("row tracking")
        for field in self.schema_json["fields"]:
            text = json.dumps(field)
            if '"nullable": false' in text:
                found.append(f"NOT NULL in column {field['name']!r}")
            if _LENGTH in text:
                found.append(f"a length of texts in column {field['name']!r}")
            if any(key.startswith(_RULES) for key in field["metadata"]):
                found.append(f"a rule of column {field['name']!r}")
        return tuple(found)
