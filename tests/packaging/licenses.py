"""The licenses of everything that is linked into the binary, in one file. (deny.toml says which are allowed.)

    python3 tests/packaging/licenses.py            # compares src/THIRD-PARTY.txt with Cargo.lock
    python3 tests/packaging/licenses.py --write    # writes it anew

Reads `cargo metadata` and the crates' own files; needs no network once cargo has fetched the crates.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "src/THIRD-PARTY.txt"
RUNTIME = ROOT / "tests/packaging/runtime-licenses.txt"
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
NAMES = re.compile(r"(?i)^(licen[cs]e|copying|notice|unlicense)")


def linked():
    """The crates of a build, by name and version: not those of tests, nor what runs while building."""
    packages = {}
    for target in TARGETS:
        text = subprocess.run(
            ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target],
            cwd=ROOT, check=True, capture_output=True, text=True).stdout
        metadata = json.loads(text)
        by_id = {package["id"]: package for package in metadata["packages"]}
        nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
        waiting, seen = [metadata["resolve"]["root"]], set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            is_macro = any("proc-macro" in one["kind"] for one in by_id[name]["targets"])
            if is_macro:
                continue
            if name != metadata["resolve"]["root"]:
                packages[(by_id[name]["name"], by_id[name]["version"])] = by_id[name]
            waiting += [edge["pkg"] for edge in nodes[name]["deps"]
                        if any(kind["kind"] is None for kind in edge["dep_kinds"])]
    return [packages[key] for key in sorted(packages)]


def page(packages):
    texts = {}
    for package in packages:
        directory = pathlib.Path(package["manifest_path"]).parent
        files = sorted(file for file in directory.iterdir() if file.is_file() and NAMES.match(file.name))
        # Where there is a choice, it is MIT.
        chosen = [file for file in files if "MIT" in file.name.upper()] if "MIT" in package["license"] else []
        for file in chosen or files:
            text = "\n".join(line.rstrip() for line in file.read_text(errors="replace").splitlines()).strip()
            kept = texts.setdefault(re.sub(r"\s+", " ", text), (text, []))
            kept[1].append(f"{package['name']} {package['version']}")
    lines = ["oomph is linked with the following crates, under these licenses.", ""]
    for package in packages:
        where = package["repository"] or f"https://crates.io/crates/{package['name']}"
        lines.append(f"{package['name']} {package['version']}: {package['license']} ({where})")
    for text, of in texts.values():
        lines += ["", "-" * 80, ", ".join(dict.fromkeys(of)), "-" * 80, "", text]
    return "\n".join(lines) + "\n\n" + RUNTIME.read_text()


def main():
    packages = linked()
    text = page(packages)
    if "--write" in sys.argv:
        PAGE.write_text(text)
    stale = PAGE.read_text() != text
    if stale:
        print(f"{PAGE.relative_to(ROOT)} is not that of Cargo.lock: run tests/packaging/licenses.py --write")
    texts = text.split("-" * 80, 1)[1]
    without = [package["name"] for package in packages if f"{package['name']} {package['version']}" not in texts]
    if without:
        print(f"no license text is packaged with {', '.join(without)}")
    print(f"{len(packages)} crates are linked")
    return 1 if stale or without else 0


if __name__ == "__main__":
    sys.exit(main())
