"""What a tag releases: that it agrees with the version and the changelog, and the files.

    python3 tests/packaging/release.py check --tag v0.3.0
    python3 tests/packaging/release.py files --wheels DIR --into DIR

`check` needs nothing but python3. `files` takes the wheels that wheel.py has built and looked into, and lays beside them, for each
architecture, an archive with the program, its man page and licenses; what oomph is made of (CycloneDX, by cargo-cyclonedx); this
version's part of the changelog; and SHA256SUMS over all of it.
"""
import argparse
import hashlib
import io
import pathlib
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINES = ("x86_64", "aarch64")
BESIDE = ("LICENSE", "README.md", "src/THIRD-PARTY.txt", "src/commands/help/oomph.1")


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]


def locked_version():
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return next(package["version"] for package in packages if package["name"] == "oomph")


def sections(changelog):
    """The changelog's parts by their headings' first words: `Unreleased`, `0.2.0`."""
    parts = re.split(r"^## (\S+).*$", changelog, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2])))


def problems(tag, of_package, locked, changelog):
    """Why this tag is none of a release; empty if it is one."""
    found = []
    if locked != of_package:
        found.append(f"Cargo.lock says {locked}, and Cargo.toml {of_package}")
    if tag != f"v{of_package}":
        found.append(f"the tag is {tag}, and Cargo.toml's version {of_package}: a release's tag is v{of_package}")
    said = sections(changelog)
    if not said.get(of_package):
        found.append(f"CHANGELOG.md has nothing of {of_package}: its heading is to be `## {of_package}`")
    if said.get("Unreleased"):
        found.append("CHANGELOG.md has entries under `## Unreleased`: they belong to the version that is released")
    return found


def archive(wheel, machine, into):
    """The program of a wheel with what belongs beside it; the same bytes for the same contents."""
    with zipfile.ZipFile(wheel) as contents:
        program = next(name for name in contents.namelist() if name.endswith(".data/scripts/oomph"))
        binary = contents.read(program)
    folder = f"oomph-{version()}-{machine}-unknown-linux-gnu"
    target = into / f"{folder}.tar.gz"
    files = [("oomph", binary, 0o755), *((pathlib.Path(part).name, (ROOT / part).read_bytes(), 0o644) for part in BESIDE)]
    # gzip notes the time otherwise.
    unpacked = io.BytesIO()
    with tarfile.open(fileobj=unpacked, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data, mode in files:
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    subprocess.run(["gzip", "-9", "-n"], input=unpacked.getvalue(), stdout=target.open("wb"), check=True)
    return target


def bill_of_materials(into):
    name = f"oomph-{version()}.cdx"
    subprocess.run(
        ["cargo", "cyclonedx", "--format", "json", "--spec-version", "1.5", "--override-filename", name], cwd=ROOT, check=True
    )
    shutil.move(ROOT / f"{name}.json", into / f"{name}.json")


def check(options):
    found = problems(options.tag, version(), locked_version(), (ROOT / "CHANGELOG.md").read_text())
    if found:
        raise SystemExit("\n".join(found))
    print(f"{options.tag}: the version and the changelog agree")


def files(options):
    options.into.mkdir(parents=True)
    for machine in MACHINES:
        wheels = sorted(options.wheels.glob(f"oomph-*manylinux_2_17_{machine}*.whl"))
        if len(wheels) != 1:
            raise SystemExit(f"{options.wheels}: {len(wheels)} wheels for {machine}; one is to be released")
        shutil.copy(wheels[0], options.into)
        archive(wheels[0], machine, options.into)
    bill_of_materials(options.into)
    (options.into / "NOTES.md").write_text(sections((ROOT / "CHANGELOG.md").read_text())[version()] + "\n")
    named = sorted(path for path in options.into.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in named]
    (options.into / "SHA256SUMS").write_text("".join(sums))
    print(f"{len(named) + 1} files in {options.into}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(required=True)
    mode = modes.add_parser("check")
    mode.add_argument("--tag", required=True)
    mode.set_defaults(run=check)
    mode = modes.add_parser("files")
    mode.add_argument("--wheels", type=pathlib.Path, required=True)
    mode.add_argument("--into", type=pathlib.Path, required=True, help="a folder that is not there yet")
    mode.set_defaults(run=files)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
