"""`make native`: compile the native kernel and put it into the package.

On Linux it is linked against glibc 2.17 (manylinux2014) by zig, which comes from PyPI, so that it
loads on any distribution. It is the same, byte for byte, for the same sources and compiler (which
`native/rust-toolchain.toml` names), and it carries the sources' SHA-256, which a test compares.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
CRATE = ROOT / "native"
TARGET = ROOT / "src" / "lakeport" / "native" / "_kernel.abi3.so"
ZIG = "ziglang==0.17.1"
GLIBC = "2.17"
SOURCES = (
    *sorted((CRATE / "src").rglob("*.rs")),
    *(CRATE / name for name in ("Cargo.lock", "Cargo.toml", "rust-toolchain.toml")),
)


def fingerprint() -> str:
    """SHA-256 over the sources and the crates' versions, in this order."""
    digest = hashlib.sha256()
    for source in SOURCES:
        name = source.relative_to(CRATE).as_posix()
        digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def linker(build: Path) -> Path:
    """A command that links with zig, from an environment of its own."""
    environment = build / "zig"
    python = environment / "bin" / "python"
    venv.create(environment, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", ZIG], check=True)
    command = environment / "zig-cc"
    target = f"{platform.machine()}-linux-gnu.{GLIBC}"
    command.write_text(f'#!/bin/sh\nexec {python} -m ziglang cc -target {target} "$@"\n')
    command.chmod(0o755)
    return command


def host(cargo: str) -> str:
    """This platform as Rust calls it."""
    asked = subprocess.run([cargo, "-vV"], cwd=CRATE, capture_output=True, text=True, check=True)
    return re.findall(r"^host: (\S+)$", asked.stdout, re.MULTILINE)[0]


def main() -> None:
    """Compile and copy."""
    cargo = shutil.which("cargo")
    if cargo is None:
        sys.exit("the kernel needs Rust to be built (https://rustup.rs); lakeport runs without it")
    build = CRATE / "target"
    build.mkdir(exist_ok=True)
    home = os.environ.get("CARGO_HOME", Path.home() / ".cargo")
    flags = [f"--remap-path-prefix={CRATE}=native", f"--remap-path-prefix={home}=cargo"]
    settings = {
        "LAKEPORT_SOURCES": fingerprint(),
        "PYO3_BUILD_EXTENSION_MODULE": "1",  # Python's symbols come from who loads it
    }
    if platform.system() == "Linux":
        flags.append(f"-Clinker={linker(build)}")
    else:
        flags += ["-Clink-arg=-undefined", "-Clink-arg=dynamic_lookup"]
    settings["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(flags)
    platform_name = host(cargo)
    # With a target named, the flags are not for what runs while it is built.
    command = [cargo, "build", "--release", "--locked", "--lib", "--target", platform_name]
    subprocess.run(command, cwd=CRATE, env={**os.environ, **settings}, check=True)
    suffix = "so" if platform.system() == "Linux" else "dylib"
    fresh = TARGET.with_suffix(".new")  # whoever has the old one loaded keeps it
    shutil.copyfile(build / platform_name / "release" / f"lib_kernel.{suffix}", fresh)
    fresh.replace(TARGET)


if __name__ == "__main__":
    main()
