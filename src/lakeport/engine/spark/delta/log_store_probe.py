"""Delta's own way to a store, tried on its own: one commit in a log that is no table's.

It goes through Spark's connector and the log store that tables there are committed with, so it
meets what a load would meet: other libraries than those that stage the data files.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from lakeport.engine.failures import translated
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.errors import DestinationError, LakeportError

if TYPE_CHECKING:
    from lakeport.engine.spark.delta.session import DeltaSession

_LINES = ('{"commitInfo":{"operation":"CONNECTION TEST"}}',)
_TAKEN = "FileAlreadyExistsException"


class LogStoreProbe:
    """A log of one commit in a folder that is used for nothing else.

    Args:
        session: reaches the store.
        folder: the folder, as Hadoop names it.
    """

    def __init__(self, session: DeltaSession, folder: str) -> None:
        spark, self._secrets = session.spark, session.secrets
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        path = java_class(jvm, "org.apache.hadoop.fs.Path")
        self._folder = path(folder)
        self._commit = path(f"{folder}/_delta_log/{0:020d}.json")
        stores = java_class(jvm, "org.apache.spark.sql.delta.storage.LogStore")
        with translated(self._secrets):
            self._store = stores.apply(spark._jsparkSession)

    def write(self) -> None:
        """Commit.

        Raises:
            LakeportError: the store refused, or can't be reached.
        """
        with translated(self._secrets):
            self._files().mkdirs(self._commit.getParent())
            self._put()

    def refuse(self) -> None:
        """Commit the same version once more, which has to be refused.

        Raises:
            DestinationError: the first commit was overwritten.
            LakeportError: anything else.
        """
        with translated(self._secrets):
            try:
                self._put()
            except Py4JError as error:
                if _TAKEN not in str(error):
                    raise
                return
        raise DestinationError(
            "a commit can be overwritten: two writers of a table would lose data",
            "use a store that honours If-None-Match (AWS, MinIO, R2, Ceph).",
        )

    def read(self) -> None:
        """Read the commit back.

        Raises:
            DestinationError: it is another one.
            LakeportError: anything else.
        """
        with translated(self._secrets):
            found = self._store.read(self._commit, self._conf)
            lines = tuple(str(found.apply(number)) for number in range(found.size()))
        if lines != _LINES:
            raise DestinationError("a commit is not read as it was written", "try again.")

    def list(self) -> None:
        """List the log.

        Raises:
            DestinationError: the commit is not in it.
            LakeportError: anything else.
        """
        with translated(self._secrets):
            found = self._store.listFrom(self._commit, self._conf)
            names = [found.next().getPath().getName()] if found.hasNext() else []
        if names != [self._commit.getName()]:
            raise DestinationError("a commit is not listed after it was written", "try again.")

    def delete(self) -> None:
        """Remove the folder.

        Raises:
            LakeportError: the store refused.
        """
        with translated(self._secrets):
            self._files().delete(self._folder, True)

    def close(self) -> None:
        """Remove what is left, where that is allowed. Never raises."""
        with suppress(LakeportError):
            self.delete()

    def _files(self) -> Any:
        return self._folder.getFileSystem(self._conf)

    def _put(self) -> None:
        lines = java_class(self._jvm, "java.util.ArrayList")()
        for line in _LINES:
            lines.add(line)
        convert = java_class(self._jvm, "scala.jdk.javaapi.CollectionConverters")
        self._store.write(self._commit, convert.asScala(lines.iterator()), False, self._conf)
