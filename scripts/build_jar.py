"""`make jvm`: compile the classes for S3 and put their jar into the package.

The jar is the same, byte for byte, for the same source and compiler, and it carries the source's
SHA-256, which a test compares.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

from lakeport.engine.spark.jvm import jars

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "jvm" / "src").rglob("*.java"))
TARGET = ROOT / "src" / "lakeport" / "jars" / "lakeport-logstore.jar"
FINGERPRINT = "META-INF/lakeport-source.sha256"
EPOCH = (1980, 1, 1, 0, 0, 0)


def fingerprint() -> str:
    """SHA-256 over the sources, in the order of their names."""
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def main() -> None:
    """Compile and pack."""
    spark = Path(pyspark.__file__).parent / "jars"
    path = [*spark.glob("*.jar"), *jars.ensure_jars({"delta", "s3a"})]
    with tempfile.TemporaryDirectory() as work:
        command = [
            "javac",
            "--release",
            "17",
            "-Xlint:all,-path,-classfile",
            "-Werror",
            "-proc:none",
        ]
        command += ["-cp", ":".join(map(str, path)), "-d", work, *map(str, SOURCES)]
        if subprocess.run(command, check=False).returncode:
            sys.exit(
                "the log store does not compile (a JDK of 17 or later is needed: openjdk-17-jdk)"
            )
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
