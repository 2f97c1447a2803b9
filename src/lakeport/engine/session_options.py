"""Hadoop options that the user has set in a Spark session of this process, such as `fs.s3a.…`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from lakeport.engine.spark.settings import OPTION_SOURCE

_NOT_THE_USERS: Final = (OPTION_SOURCE, "core-default.xml", "Set by Spark to default values")
_ENVIRONMENT: Final = " from AWS_"  # Spark copies what it finds there at its start


def read_session_options(names: Iterable[str]) -> dict[str, str]:
    """Return those of the options `names` that the user's Spark session has, secrets included.

    Empty without such a session, and for lakeport's own. Left out are Hadoop's defaults, variables
    of the environment, and options that lakeport has set.
    """
    if "pyspark" not in sys.modules:
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
