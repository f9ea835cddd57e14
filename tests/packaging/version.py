"""Whether a tag, Cargo.toml, Cargo.lock and CHANGELOG.md say the same version: before anything is released.

    python3 tests/packaging/version.py --tag v0.3.0
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def found(name, pattern):
    match = re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)
    return match.group(1) if match else None


def problems(tag):
    version = tag[1:] if re.fullmatch(r"v\d+\.\d+\.\d+", tag) else None
    if version is None:
        return ["the tag %s is not of the form v1.2.3" % tag]
    said = {
        "Cargo.toml": found("Cargo.toml", r'^version = "([^"]+)"'),
        "Cargo.lock": found("Cargo.lock", r'^name = "oomph"\nversion = "([^"]+)"'),
        "the first section of CHANGELOG.md": found("CHANGELOG.md", r"^## (\S+)"),
    }
    return ["%s says %s, and the tag %s" % (where, other, version) for where, other in said.items() if other != version]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", required=True)
    wrong = problems(parser.parse_args().tag)
    for line in wrong:
        print("version: " + line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
