"""Sources in object stores: which store a URI names, and with which credentials it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.config.base import config_class, uri_values
from lakeport.config.load import load_target

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.model import Storage


def storage_of(target: DestinationConfig, uri: str) -> Storage | None:
    """The store rooted at a folder's URI; None for a local path.

    A source in the target's own cloud is read with the target's credentials and endpoint, any
    other one with those that the environment has.

    Raises:
        ConfigError: no store has that scheme.
    """
    if "://" not in uri or uri.startswith("file:"):
        return None
    kind = config_class(uri_values(uri)["destination"])
    return (kind.of_folder(uri, target) or load_target(uri)).storage()
