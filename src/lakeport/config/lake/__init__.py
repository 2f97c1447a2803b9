"""A lake's file: what the lake holds, where it comes from, and what is expected of it."""

from lakeport.config.lake.model import LakeFile, Lineage, Load, Notices
from lakeport.config.lake.read import read_lake

__all__ = ["LakeFile", "Lineage", "Load", "Notices", "read_lake"]
