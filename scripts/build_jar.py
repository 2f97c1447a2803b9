"""`make jvm`: compile the classes for Spark's JVM and put their jar into the package.

The jar is the same, byte for byte, for the same source and compiler, and it carries the source's
SHA-256, which a test compares.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pyspark

from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.jvm.versions import SparkBuild

ROOT = Path(__file__).parent.parent
JVM = ROOT / "jvm"
SOURCES = sorted(JVM.rglob("*.java"))
TARGET = ROOT / "src" / "lakeport" / "jars" / "lakeport-logstore.jar"
FINGERPRINT = "META-INF/lakeport-source.sha256"
EPOCH = (1980, 1, 1, 0, 0, 0)
JAVA = "8"
"""Clusters with Spark 3.5 have Java 8 at least."""

OLD = SparkBuild("3.5", "2.12")
OLD_SQL = jars.Jar(
    "org.apache.spark",
    "spark-sql_2.12",
    "3.5.9",
    "7c2c0e0f551373eb80efa066e2d5d4fe878372f6f69403eae0d09b652d071083",
    9_687_884,
)
"""It has the interface of `WholeFiles` by the name that Spark 3.5 and 4.0 give it."""


def fingerprint() -> str:
    """SHA-256 over the sources, in the order of their names."""
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def compile_sources(sources: Iterable[Path], path: Iterable[Path], target: Path) -> None:
    """Compile sources on a class path into a folder; exit if javac complains."""
    command = ["javac", "--release", JAVA, "-Xlint:all,-path,-classfile,-options", "-Werror"]
    command += ["-proc:none", "-cp", ":".join(map(str, [target, *path])), "-d", str(target)]
    if subprocess.run([*command, *map(str, sources)], check=False).returncode:
        sys.exit("the jar does not compile (a JDK of 17 or later is needed: openjdk-17-jdk)")


def compile_all(target: Path, scratch: Path) -> None:
    """Compile each class against the libraries that it is for."""
    spark = list((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    path = [*jars.ensure_jars({"delta", "s3a"}), *spark]
    # Hadoop 3.3 has the AWS SDK v1.
    old = jars.fetch_jars(jars.pinned_jars("s3a", OLD))
    compile_sources((JVM / "sdk_v1").rglob("*.java"), [*old, *spark], target)
    compile_sources((JVM / "src").rglob("*.java"), path, target)
    # Spark has moved the interface to another package in 4.1.
    text = (JVM / "src" / "io" / "lakeport" / "delta" / "WholeFiles.java").read_text()
    text = text.replace(".streaming.checkpointing.", ".streaming.").replace(
        "package io.lakeport.delta;",
        "package io.lakeport.delta.spark40;\n\nimport io.lakeport.delta.ConditionalPut;",
    )
    twin = scratch / "WholeFiles.java"
    twin.write_text(text)
    compile_sources([twin], [*jars.fetch_jars([OLD_SQL]), *path], target)


def main() -> None:
    """Compile and pack."""
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as scratch:
        compile_all(Path(work), Path(scratch))
        TARGET.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(TARGET, "w", zipfile.ZIP_DEFLATED) as jar:
            jar.writestr(
                zipfile.ZipInfo("META-INF/MANIFEST.MF", EPOCH), "Manifest-Version: 1.0\n\n"
            )
            jar.writestr(zipfile.ZipInfo(FINGERPRINT, EPOCH), fingerprint())
            for compiled in sorted(Path(work).rglob("*.class")):
                name = compiled.relative_to(work).as_posix()
                jar.writestr(zipfile.ZipInfo(name, EPOCH), compiled.read_bytes())


if __name__ == "__main__":
    main()
