"""The Chromium that tests drive, and what they bring along for it: fonts, and axe-core.

Which one: the program that `$LAKEPORT_CHROMIUM` names; else, on 64-bit Linux on Intel or AMD, a
pinned one from npm (`@sparticuz/chromium`), which needs no library of the system beside glibc, so
that all test the same; else the system's. All from npm lie in the cache folder of the emulators,
and are built with them (`python -m tests.emulators --build`).
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tarfile
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa

from tests.emulators import BUILD_SECONDS, EmulatorError, Package, find_tool

NAMES = ("chromium", "chromium-browser", "google-chrome")
HINT = (
    "Hint: install one, for example with `apt-get install chromium`, or set LAKEPORT_CHROMIUM to "
    "the program's path."
)
_FONTS = """<?xml version="1.0"?>
<fontconfig>
  {folders}
  <cachedir>{cache}</cachedir>
  {families}
</fontconfig>
"""
_FAMILY = "<alias><family>{}</family><prefer><family>{}</family></prefer></alias>"
_FAMILIES = {"monospace": "DejaVu Sans Mono", "sans-serif": "Open Sans", "system-ui": "Open Sans"}


@dataclass(frozen=True)
class Tarball(Package):
    """A package of npm's by itself, checked against the sum that is pinned here; none of its
    scripts run, and nothing that it depends on comes along.

    Attributes:
        integrity: its SHA-512 as the registry tells it, in base64.
    """

    integrity: str = ""

    def _build(self, folder: Path) -> None:
        command = [find_tool(self.tool, self.name), "pack", f"{self.source}@{self.version}"]
        command += ["--silent", f"--pack-destination={folder}"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=BUILD_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise EmulatorError(f"{self.name}: not fetched in {BUILD_SECONDS} s") from error
        packed = next(folder.glob("*.tgz"), None)
        if done.returncode or packed is None:
            tail = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
            raise EmulatorError(f"{self.name}: `{' '.join(command)}` failed:\n{tail}")
        found = b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        if found != self.integrity:
            raise EmulatorError(f"{self.name}: its SHA-512 is {found}, not {self.integrity}")
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        packed.unlink()
        self._unpack(folder)

    def _unpack(self, folder: Path) -> None:
        """What is left to do with the package's own files, in `package`."""


class _Chromium(Tarball):
    """Its files are packed with Brotli, as it is made for places that take 50 MB."""

    def _unpack(self, folder: Path) -> None:
        packed = folder / "package" / "bin"
        for name in ("al2023", "fonts", "swiftshader"):
            stream = pa.input_stream(packed / f"{name}.tar.br", compression="brotli")
            # The graphics library is looked for beside the program.
            into = folder if name == "swiftshader" else folder / name
            with stream, tarfile.open(fileobj=stream, mode="r|") as archive:
                archive.extractall(into, filter="data")
        program = folder / self.program
        with (
            pa.input_stream(packed / "chromium.br", compression="brotli") as stream,
            program.open("wb") as file,
        ):
            shutil.copyfileobj(stream, file, 1 << 20)
        program.chmod(0o755)
        shutil.rmtree(packed)


CHROMIUM = _Chromium(
    "chromium",
    "153.0.0",
    "@sparticuz/chromium",
    "npm",
    "chromium",
    "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==",
)
FONTS = Tarball(
    "dejavu-fonts-ttf",
    "2.37.3",
    "dejavu-fonts-ttf",
    "npm",
    "package/ttf",
    "f1hd7jJbeQa1VWcw+K2KrTXS50zTMaHpVC4XIKJpNcDeYR5ajMtj/iLlQDYNvLOKamUB3ARVVCf79lNwNVztSQ==",
)
AXE = Tarball(
    "axe-core",
    "4.14.1",
    "axe-core",
    "npm",
    "package/axe.min.js",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)


def packages() -> list[Package]:
    """What is built ahead here."""
    return [AXE, *([CHROMIUM, FONTS] if _pinned() else ())]


def _pinned() -> bool:
    """Whether the tests bring their own browser."""
    here = (platform.system(), platform.machine())
    return "LAKEPORT_CHROMIUM" not in os.environ and here == ("Linux", "x86_64")


@dataclass(frozen=True)
class Chromium:
    """A browser that can be started.

    Attributes:
        program: its path.
        variables: those that it needs beside this process's.
    """

    program: Path
    variables: dict[str, str]

    @classmethod
    def find(cls, work: Path) -> Chromium:
        """The browser for this machine.

        Args:
            work: a folder of its own, for what it keeps of fonts.

        Raises:
            EmulatorError: there is none; it says what to install.
        """
        if named := os.environ.get("LAKEPORT_CHROMIUM"):
            if not os.access(named, os.X_OK):
                raise EmulatorError(f"LAKEPORT_CHROMIUM is {named}, which is no program. {HINT}")
            return cls(Path(named), {})
        if _pinned():
            return cls._from_npm(work)
        found = next(filter(None, map(shutil.which, NAMES)), None)
        if found is None:
            raise EmulatorError(
                f"Tests of the pages need Chromium, and none of {', '.join(NAMES)} is on PATH. "
                f"{HINT}"
            )
        return cls(Path(found), {})

    @classmethod
    def _from_npm(cls, work: Path) -> Chromium:
        """The pinned one, with the pinned fonts alone: letters are as wide on every machine."""
        program = CHROMIUM.path()
        fonts = (program.parent / "fonts" / "fonts", FONTS.path())
        folders = "\n  ".join(f"<dir>{escape(str(folder))}</dir>" for folder in fonts)
        config = work / "fonts.conf"
        families = "\n  ".join(_FAMILY.format(*pair) for pair in _FAMILIES.items())
        cache = escape(str(work / "fonts"))
        config.write_text(_FONTS.format(folders=folders, cache=cache, families=families))
        libraries = str(program.parent / "al2023" / "lib")
        return cls(program, {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(config)})
