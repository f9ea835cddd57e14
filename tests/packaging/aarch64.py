"""A rustc that builds for aarch64, where rustup has no standard library for it: Debian's, with the library of its own version.

    python3 tests/packaging/aarch64.py --into DIR

Downloads packages with apt-get into DIR and unpacks them there; nothing is installed and nothing of the system's apt is
changed. DIR/rustc is the compiler, DIR/aarch64 a root with the C library, for qemu-aarch64-static -L. Ends with 1, and
says why, where Debian's rustc is too old or cannot be had.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHIVES = (("http://deb.debian.org/debian", "{release}"), ("http://deb.debian.org/debian-security", "{release}-security"))
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The compiler follows Firefox and Chromium, so that a stable Debian has a new one.
COMPILER = ("rustc-web", "libstd-rust-web-dev:amd64", "libstd-rust-web-dev:arm64")


class NotHere(Exception):
    pass


class Apt:
    """An apt with directories of its own, for both architectures."""

    def __init__(self, directory):
        self.directory = directory
        for below in ("state/lists/partial", "cache/archives/partial", "packages"):
            (directory / below).mkdir(parents=True, exist_ok=True)
        (directory / "state/status").touch()
        release = re.search(r"(?m)^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text())
        if not release or not pathlib.Path(KEYS).exists():
            raise NotHere("this is not Debian")
        lines = [f"deb [arch=amd64,arm64 signed-by={KEYS}] {address} {suite.format(release=release[1])} main\n"
                 for address, suite in ARCHIVES]
        (directory / "sources.list").write_text("".join(lines))
        self.options = []
        for name, value in (("APT::Architectures::", "amd64"), ("APT::Architectures::", "arm64"), ("Dir::State", "state"),
                            ("Dir::State::status", "state/status"), ("Dir::Cache", "cache"), ("APT::Sandbox::User", "root"),
                            ("Dir::Etc::SourceList", "sources.list"), ("Dir::Etc::SourceParts", "none")):
            value = value if name.startswith("APT") else directory / value
            self.options += ["-o", f"{name}={value}"]

    def run(self, *words):
        done = subprocess.run(["apt-get", *self.options, *words], cwd=self.directory / "packages", capture_output=True, text=True)
        if done.returncode:
            raise NotHere(f"apt-get {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def with_dependencies(self, package):
        planned = self.run("-s", "install", "--no-install-recommends", package)
        for name, version, architecture in re.findall(r"(?m)^Inst (\S+) \((\S+) [^\[]*\[(\w+)\]\)", planned):
            yield name.split(":")[0], version, architecture

    def unpack(self, packages, into):
        into.mkdir(exist_ok=True)
        self.run("download", *(f"{name}:{architecture}={version}" for name, version, architecture in packages))
        for file in (self.directory / "packages").iterdir():
            subprocess.run(["dpkg-deb", "-x", file, into], check=True)
            file.unlink()


def oldest_rust():
    return re.search(r'(?m)^rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text())[1]


def numbers(version):
    return [int(number) for number in re.findall(r"\d+", version)[:2]]


def fetch(directory):
    apt = Apt(directory)
    apt.run("update")
    # The C library is the system's own: two in one process do not go together.
    planned = [one for one in apt.with_dependencies(COMPILER[1]) if one[0] != "libc6"]
    version = dict((name, version) for name, version, _ in planned)["libstd-rust-web-dev"]
    if numbers(version) < numbers(oldest_rust()):
        raise NotHere(f"Debian's rustc is {version}, and {oldest_rust()} is needed")
    foreign = "libstd-rust-web-dev", version, "arm64"
    apt.unpack([*planned, ("rustc-web", version, "amd64"), foreign], directory / "amd64")
    apt.unpack([one for one in apt.with_dependencies("libgcc-s1:arm64") if one[2] == "arm64"], directory / "aarch64")
    compiler = directory / "rustc"
    libraries = directory / "amd64/usr/lib/x86_64-linux-gnu"
    # It looks for its libraries where they would be installed; the wrapper says where they are.
    compiler.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {directory}/amd64/usr/bin/rustc "$@"\n')
    compiler.chmod(0o755)
    return subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=pathlib.Path, required=True)
    directory = parser.parse_args().into.absolute()
    if (directory / "rustc").exists():
        print(f"{directory}/rustc is there")
        return 0
    try:
        print(f"{directory}/rustc: {fetch(directory)}")
    except (NotHere, FileNotFoundError, KeyError) as error:
        print(f"no rustc for aarch64: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
