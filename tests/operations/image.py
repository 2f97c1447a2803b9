"""The image without a registry: the Dockerfile's own steps, in a root file system by mmdebstrap.

`build_stages` reads the steps from the Dockerfile, so that what is tried is what is written there.
`Image.command` is how the built image's command is started: root read-only, the image's user.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOSTNAME = "container"
_AUTHORITIES = "/run/authorities.crt"
_LEFT_OUT_BY_SLIM = ("doc", "groff", "info", "linda", "lintian", "locale", "man")
_CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Image:
    """A root file system, and what the Dockerfile says of its processes."""

    root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0"
    entrypoint: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def command(
        self,
        arguments: Sequence[str],
        mounts: Mapping[str, Path] | None = None,
        read_only: Mapping[str, Path] | None = None,
        environment: Mapping[str, str] | None = None,
        user: str = "",
        network: bool = False,
    ) -> list[str]:
        """The command of a container: its root read-only, /tmp in memory, no capability.

        Args:
            arguments: after the entry point.
            mounts: file or folder in the container -> what is mounted there, writable.
            read_only: as `mounts`, for what can't be written.
            environment: variables besides the image's.
            user: of the process, where it is not the image's.
            network: share this process's network; otherwise the container has a loopback alone.
        """
        binds: list[str] = []
        for option, places in (("--bind", mounts or {}), ("--ro-bind", read_only or {})):
            for place, own in places.items():
                # A container's runtime makes the places for its mounts.
                there = self.root / place.lstrip("/")
                (there if own.is_dir() else there.parent).mkdir(parents=True, exist_ok=True)
                if not own.is_dir():
                    there.touch()
                binds += [option, str(own), place]
        spaces = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", HOSTNAME]
        spaces += [] if network else ["--unshare-net"]
        capabilities = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")  # to have none in the end
        variables = {**self.environment, **(environment or {})}
        return [
            *("bwrap", "--die-with-parent", "--as-pid-1", *spaces, "--clearenv"),
            *("--ro-bind", str(self.root), "/", "--dev", "/dev", "--proc", "/proc"),
            *("--perms", "1777", "--tmpfs", "/tmp", *binds, "--chdir", self.folder),
            *(part for name in capabilities for part in ("--cap-add", name)),
            *(part for name, value in variables.items() for part in ("--setenv", name, value)),
            *("setpriv", f"--reuid={user or self.user}", "--regid=0", "--clear-groups"),
            *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"),
            *(*self.entrypoint, *arguments),
        ]


def read_steps(dockerfile: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with what follows each, continued lines joined."""
    lines = [line for line in dockerfile.read_text("utf-8").splitlines() if line.strip()]
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(name, value) for name, _, value in (line.partition(" ") for line in joined)]


def build_stages(last: str, folder: Path) -> dict[str, Image]:
    """Do the Dockerfile's steps up to the end of a stage, below `folder`; return stages by name.

    It needs root, mmdebstrap, bubblewrap, and what `docker build` needs: a network.
    """
    arguments: dict[str, str] = {}
    stages: dict[str, Image] = {}
    name = ""
    for instruction, value in read_steps(ROOT / "Dockerfile"):
        match instruction:
            case "ARG":
                argument, _, default = value.partition("=")
                arguments[f"${{{argument}}}"] = default
            case "FROM":
                if name == last:
                    break
                base, _, name = value.partition(" AS ")
                stages[name] = _begin_stage(arguments.get(base, base), stages, folder / name)
            case _:
                stages[name] = _do_step(instruction, value, stages[name], stages)
    return stages


def _begin_stage(base: str, stages: Mapping[str, Image], root: Path) -> Image:
    """Return a stage's root file system: a copy of an earlier stage's, or Debian's smallest."""
    if base in stages:
        subprocess.run(["cp", "-a", stages[base].root, root], check=True)
        return replace(stages[base], root=root)
    suite = re.fullmatch(r"debian:([a-z]+)-[0-9]{8}-slim@sha256:[0-9a-f]{64}", base)
    assert suite, base
    # As the image of this name: the required packages, without manuals, and no cache of apt's.
    options = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in _LEFT_OUT_BY_SLIM]
    options.append("--dpkgopt=path-include=/usr/share/doc/*/copyright")
    options += [f'--aptopt=Dir::Cache::{cache} "";' for cache in ("pkgcache", "srcpkgcache")]
    options.append('--aptopt=DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb"; };')
    command = ["mmdebstrap", "--quiet", "--variant=minbase", *options, suite[1], root]
    subprocess.run(command, check=True)
    return Image(root)


def _do_step(instruction: str, value: str, image: Image, stages: Mapping[str, Image]) -> Image:
    """Do one instruction in a stage, as `docker build` does it; return what follows from it."""
    match instruction:
        case "RUN":
            _run(image, value)
        case "COPY":
            *sources, target = shlex.split(value)
            origin = ROOT
            if sources[0].startswith("--from="):
                origin = stages[sources.pop(0).removeprefix("--from=")].root
            for source in sources:
                place = image.root / image.folder.lstrip("/") / target.lstrip("/")
                if target.startswith("/"):
                    place = image.root / target.lstrip("/")
                _copy(
                    origin / source.lstrip("/"), place / source if target.endswith("/") else place
                )
        case "ENV" | "LABEL":
            pairs = dict(pair.split("=", 1) for pair in shlex.split(value))
            if instruction == "LABEL":
                return replace(image, labels={**image.labels, **pairs})
            return replace(image, environment={**image.environment, **pairs})
        case "WORKDIR":
            (image.root / value.lstrip("/")).mkdir(parents=True, exist_ok=True)
            return replace(image, folder=value)
        case "USER":
            return replace(image, user=value)
        case "ENTRYPOINT":
            return replace(image, entrypoint=json.loads(value))
        case _:
            raise AssertionError(f"{instruction} is not done here")
    return image


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder's content, as COPY does; compiled Python stays behind."""
    if source.is_dir():
        ignore = shutil.ignore_patterns("__pycache__") if source.is_relative_to(ROOT) else None
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=ignore)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _run(image: Image, script: str) -> None:
    """Run a step's script as root of the stage, with this machine's network and authorities."""
    given = {name: value for name, value in os.environ.items() if name.endswith("_proxy")}
    mounts = ["--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]
    for name in _CERTIFICATES:
        if name in os.environ:
            given[name] = _AUTHORITIES
            mounts += ["--ro-bind", os.environ[name], _AUTHORITIES]
    variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **given, **image.environment}
    subprocess.run(
        [
            *("bwrap", "--bind", image.root, "/", "--dev", "/dev", "--proc", "/proc"),
            *("--tmpfs", "/run", *mounts, "--cap-add", "ALL", "--unshare-pid", "--clearenv"),
            *(part for name, value in variables.items() for part in ("--setenv", name, value)),
            *("--chdir", image.folder, "--", "sh", "-c", script),
        ],
        check=True,
    )
