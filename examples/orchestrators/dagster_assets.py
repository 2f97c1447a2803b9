"""Dagster assets: one of files, with a check for each expectation, and one for each load of a file.

`dagster dev -f dagster_assets.py` shows them; LAKE_KEY and LAKE_SECRET are the keys of the store.
"""

from dagster import Definitions, EnvVar

from lakeport.integrations.dagster import LakeportResource, lakeport_asset, lakeport_assets

orders = lakeport_asset(
    "in/2026-11-27/*.csv",
    key="orders",
    options={"expect": [{"not_null": "id"}, {"in": {"size": ["S", "M"]}, "otherwise": "warn"}]},
)
lake = lakeport_assets("lake.yaml", resource_key="lakeport")
secrets = {
    "aws_access_key_id": EnvVar("LAKE_KEY"),
    "aws_secret_access_key": EnvVar("LAKE_SECRET"),
}
resource = LakeportResource(to="s3://orders/dagster", secrets=secrets)
defs = Definitions(assets=[orders, lake], resources={"lakeport": resource})
