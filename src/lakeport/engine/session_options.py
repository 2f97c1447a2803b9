"""Options of the user's own Spark session: read Hadoop's, and add to a session's builder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lakeport.engine.spark.jvm.jars import ensure_jars
from lakeport.engine.spark.settings import (
    OPTION_SOURCE,
    add_settings,
    check_settings,
    is_submitted,
    lake_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOT_THE_USERS: Final = (OPTION_SOURCE, "core-default.xml", "Set by Spark to default values")
_ENVIRONMENT: Final = " from AWS_"  # Spark copies what it finds there at its start


def read_session_options(names: Iterable[str]) -> dict[str, str]:
    """Return those of the options `names` that the user's Spark session has, secrets included.

    Empty without such a session, and for lakeport's own. Left out are Hadoop's defaults, variables
    of the environment, and options that lakeport has set.
    """
    if "pyspark" not in sys.modules and not is_submitted():
        return {}
    from lakeport.engine.spark.session import DriverSession

    found: dict[str, str] = {}
    with suppress(Exception):  # a session that has ended raises where it is used
        session = DriverSession.find_users_session()
        if session is None:
            return {}
        conf = session._jsparkSession.sessionState().newHadoopConf()
        for name in names:
            value = str(conf.get(name) or "").strip()
            sources = map(str, (conf.getPropertySources(name) or ()) if value else ())
            if value and not any(s in _NOT_THE_USERS or _ENVIRONMENT in s for s in sources):
                found[name] = value
    return found


def configure_builder(
    builder: SparkSession.Builder,
    needs: frozenset[str],
    settings: Mapping[str, str],
    connect: Callable[[], SparkSession],
) -> None:
    """Add jars and settings for lakes to a session's builder; what it has been given stays.

    Args:
        needs: keys of `jars.NEEDS`.
        settings: further settings of Spark.
        connect: called after `getOrCreate`, to hand credentials to the session that runs then: all
            that the builder holds would be on the command line of the JVM.

    Raises:
        ConfigError: a setting looks like a secret, or is not Spark's.
        MissingDependency: a jar can't be downloaded, or none is known for this Spark.
    """
    from lakeport.engine.spark.session import DriverSession

    check_settings(settings)
    given = {name: str(value) for name, value in builder._options.items()}
    wanted = add_settings(add_settings(lake_settings(needs), settings), given)
    listed = [*wanted.get("spark.jars", "").split(","), *map(str, ensure_jars(needs))]
    wanted["spark.jars"] = ",".join(dict.fromkeys(filter(None, listed)))
    build = builder.getOrCreate

    def get_or_create() -> SparkSession:
        build()
        DriverSession.hand_over()  # it may be lakeport's own, which nothing replaces from now on
        return connect()

    for name, value in wanted.items():
        builder.config(name, value)
    builder.getOrCreate = get_or_create  # type: ignore[method-assign]
