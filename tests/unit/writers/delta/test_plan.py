"""What a load may ask of its table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.delta_log.state import TableState
from lakeport.errors import ConfigError, SchemaConflict
from lakeport.model import Mode
from lakeport.writers.delta.plan import DEFAULT_PROPERTIES, TableRequest, plan_table
from tests.unit.writers.delta.support import SCHEMA, contents


def test_clustering_and_properties_are_checked_before_anything_is_written() -> None:
    asked = {"delta.checkpointInterval": "50"}
    plan = plan_table(None, SCHEMA, TableRequest(cluster_by=("ID",), properties=asked))
    assert plan.cluster_by == ("id",)
    assert plan.properties == {
        **DEFAULT_PROPERTIES,
        "delta.checkpointInterval": "50",
        "delta.feature.clustering": "supported",
    }
    with pytest.raises(ConfigError, match=r"no column 'x' to cluster by\n"):
        plan_table(None, SCHEMA, TableRequest(cluster_by=("x",)))
    with pytest.raises(ConfigError, match=r"no column 'idd' to cluster by; did you mean 'id'\?"):
        plan_table(None, SCHEMA, TableRequest(cluster_by=("idd",)))
    with pytest.raises(ConfigError, match="can't be clustered"):
        plan_table(None, SCHEMA, TableRequest(cluster_by=("id",), partition_keys=("p",)))
    with pytest.raises(ConfigError, match="by which no table can be clustered"):
        plan_table(None, pa.schema([("a", pa.list_(pa.int64()))]), TableRequest(cluster_by=("a",)))
    wide = pa.schema([(f"c{n}", pa.int64()) for n in range(40)])
    with pytest.raises(ConfigError, match="first 32"):
        plan_table(None, wide, TableRequest(cluster_by=("c35",)))

    known = contents([], keys=()).state
    with pytest.raises(SchemaConflict, match=r"not clustered, and `cluster_by` names \(id\)"):
        plan_table(known, SCHEMA, TableRequest(cluster_by=("id",)))
    assert not plan_table(known, SCHEMA).metadata_changes
    changed = plan_table(known, SCHEMA, TableRequest(properties={"delta.appendOnly": "true"}))
    assert changed.metadata_changes
    assert changed.properties == {"delta.appendOnly": "true"}
    clustered = TableState(
        3,
        {**known.metadata, "configuration": {}},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering"]},
        ("id",),
    )
    properties = {"delta.feature.clustering": "supported", "delta.minWriterVersion": "7"}
    same = plan_table(clustered, SCHEMA, TableRequest(cluster_by=("id",), properties=properties))
    assert (same.metadata_changes, same.cluster_by) == (False, ())
    with pytest.raises(SchemaConflict, match="lacks 'id', by which the table is clustered"):
        plan_table(clustered, SCHEMA.remove(0), TableRequest(mode=Mode.OVERWRITE))
    with pytest.raises(ConfigError, match="columnMapping"):
        plan_table(known, SCHEMA, TableRequest(properties={"delta.columnMapping.mode": "name"}))
