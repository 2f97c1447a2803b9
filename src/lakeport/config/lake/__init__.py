"""The lake file: loads with their sources, targets, transforms and expectations, in one file."""

from lakeport.config.lake.model import LakeFile, Lineage, Load, Notices
from lakeport.config.lake.read import read_lake

__all__ = ["LakeFile", "Lineage", "Load", "Notices", "read_lake"]
