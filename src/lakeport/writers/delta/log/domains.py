"""Domain metadata: texts of table features in the log, by their domains. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from typing import Any

from lakeport.writers.delta.log.actions import CLUSTERING_DOMAIN
from lakeport.writers.delta.schema import logical_paths

__all__ = ["apply_domain", "cluster_columns"]


def apply_domain(domains: MutableMapping[str, str], action: Mapping[str, Any]) -> None:
    """Have a `domainMetadata` action change the texts: domain -> its text."""
    if action.get("removed"):
        domains.pop(action["domain"], None)
    else:
        domains[action["domain"]] = action["configuration"]


def cluster_columns(domains: Mapping[str, str], schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns by which a table is clustered, nested ones as dotted paths.

    Args:
        domains: domain -> its text.
        schema: the table's, as Delta's JSON.
    """
    listed = json.loads(domains.get(CLUSTERING_DOMAIN, "{}")).get("clusteringColumns", ())
    return logical_paths(schema, listed)
