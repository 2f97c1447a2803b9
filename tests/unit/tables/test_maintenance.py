"""What may be asked of OPTIMIZE and VACUUM."""

from __future__ import annotations

import json

import pytest

from lakeport.errors import ConfigError
from lakeport.tables.compaction import report
from lakeport.tables.maintenance import hours, sort_columns
from lakeport.writers.delta.log.actions import clustering_action
from tests.unit.writers.delta.support import contents


def test_sort_columns_are_the_tables_own() -> None:
    assert sort_columns(contents([]), ["ID"]) == ["`id`"]
    with pytest.raises(ConfigError, match="no column 'idd'; did you mean 'id'"):
        sort_columns(contents([]), ["idd"])
    with pytest.raises(ConfigError, match="partition column"):
        sort_columns(contents([]), ["p"])
    action = json.loads(clustering_action([["id"]]))["domainMetadata"]
    clustered = contents([], keys=(), domains={action["domain"]: action["configuration"]})
    assert clustered.cluster_columns == ("id",)
    assert report(clustered).note
    with pytest.raises(ConfigError, match="clustered by id"):
        sort_columns(clustered, ["p"])
    for text in ("soon", "1.5h", "-1h", ""):
        with pytest.raises(ConfigError, match="no retention"):
            hours(text)
