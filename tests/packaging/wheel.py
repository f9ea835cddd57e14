"""Builds the wheels, looks into them, installs them the ways that people do, and runs what was installed.

    python3 tests/packaging/wheel.py --tools /tmp/oomph-tools --results DIR [--without-aarch64] [--without-source]

Needs Rust, Python 3.8 or later with venv, and PyPI (maturin, ziglang, uv, pipx). Everything that is installed is run in a
home directory of its own, with nothing in PATH but the environment and the system.
"""
import argparse
import email
import glob
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGEST = 6_000_000
GLIBC = (2, 17)
MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine
SYSTEM = "/usr/local/bin:/usr/bin:/bin"


def run(*words, **more):
    words = [str(word) for word in words]
    print("$", " ".join(words), flush=True)
    return subprocess.run(words, check=True, **more)


def ask(*words, **more):
    return run(*words, stdout=subprocess.PIPE, text=True, **more).stdout.strip()


def check(holds, words):
    if not holds:
        raise SystemExit(f"FAILED: {words}")
    print(f"  ok: {words}", flush=True)


def tools(directory):
    python = directory / "bin/python"
    if not python.exists():
        venv.create(directory, with_pip=True)
    run(python, "-m", "pip", "install", "-q", "maturin>=1.9,<2", "ziglang", "uv", "pipx")
    return directory / "bin"


def has_target(target):
    """Whether Rust can build for it; its standard library is fetched if rustup can."""
    if shutil.which("rustup") is None:
        return target.startswith("x86_64")
    listed = ["rustup", "target", "list", "--installed"]
    if target in subprocess.run(listed, capture_output=True, text=True).stdout.split():
        return True
    try:
        return subprocess.run(["rustup", "target", "add", target], timeout=300).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def build(binaries, machine, results):
    target = f"{machine}-unknown-linux-gnu"
    environment = dict(os.environ, PATH=f"{binaries}:{os.environ['PATH']}")
    run(binaries / "maturin", "build", "--release", "--locked", "--zig", "--compatibility", "manylinux_2_17",
        "--target", target, "--out", results, cwd=ROOT, env=environment)
    wheels = glob.glob(f"{results}/oomph-*manylinux_2_17_{machine}*.whl")
    check(len(wheels) == 1, f"one wheel for {machine}: {wheels}")
    return pathlib.Path(wheels[0])


def look_into(wheel, machine):
    size = wheel.stat().st_size
    check(size <= LARGEST, f"{wheel.name} has {size:,} bytes")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        binary = archive.read(next(name for name in names if name.endswith(".data/scripts/oomph")))
        metadata = email.message_from_bytes(archive.read(next(name for name in names if name.endswith("/METADATA"))))
    check(binary[:4] == b"\x7fELF" and struct.unpack("<H", binary[18:20])[0] == MACHINES[machine], f"the program is for {machine}")
    asked = max(tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_(\d+\.\d+)", binary))
    check(asked <= GLIBC, f"it asks for glibc {asked[0]}.{asked[1]}; the program has {len(binary):,} bytes")
    for part in ("oomph/__main__.py", ".data/data/share/man/man1/oomph.1", "/licenses/LICENSE", "THIRD-PARTY.txt"):
        check(any(name.endswith(part) for name in names), f"{part} is in it")
    extra = [name for name in names if name.endswith(".py") and not name.startswith("oomph/")]
    check(not extra, f"no other Python files: {extra}")
    for field in ("Version", "Summary", "License-Expression", "Requires-Python", "Description-Content-Type", "Keywords"):
        check(metadata[field], f"{field}: {metadata[field]}")
    check(not metadata.get_all("Requires-Dist"), "it depends on no package")
    return metadata["Version"]


def environment(home, *directories, **more):
    """A home of its own, the system's programs, and nothing else."""
    home.mkdir(exist_ok=True)
    path = ":".join([*map(str, directories), SYSTEM])
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "OOMPH_RUNTIME_DIR": f"{home}/run", **more}


def runs(name, version, around, prefix):
    """What was installed finds the environment's Python, and the probe works in it."""
    said = ask("oomph", "--version", env=around)
    check(said.startswith(f"oomph {version}"), f"{name}: {said}")
    module = ask("python3", "-m", "oomph", "--version", env=around)
    check(module == said, f"{name}: python -m oomph says the same")
    what = "import sys; print(sys.prefix, [name for name in sys.modules if name.partition('.')[0] == 'oomph'])"
    said = ask("oomph", "--no-nvml", "python3", "-c", what, env=around)
    check(said == f"{prefix} []", f"{name}: the training has the environment's Python, and nothing of the wheel: {said}")
    status = subprocess.run(["python3", "-m", "oomph", "--no-nvml", "sh", "-c", "exit 7"], env=around).returncode
    check(status == 7, f"{name}: the exit status is the command's own")
    manual = pathlib.Path(prefix) / "share/man/man1/oomph.1"
    check(manual.exists(), f"{name}: the man page is installed")
    demo(name, around)


def demo(name, around):
    recording = pathlib.Path(around["HOME"]) / f"{name.replace(' ', '-')}.jsonl"
    done = subprocess.run(
        ["oomph", "--headless", "--on-oom", "exit", f"--record={recording}", "python3", str(ROOT / "demo/train.py"),
         "--batch-size", "64"],
        env=around, capture_output=True, text=True, timeout=300)
    hello = re.search(r'"event":"hello".*', recording.read_text())
    version = subprocess.run(["python3", "--version"], env=around, capture_output=True, text=True).stdout.split()[1]
    check(hello and f'"{version}"' in hello.group(), f"{name}: the probe is loaded into Python {version}")
    check(done.returncode == 1 and "oomph: advice:" in done.stderr, f"{name}: the demo's OOM is explained")


def in_venv(wheel, version, root):
    python = root / "venv/bin/python"
    venv.create(root / "venv", with_pip=True)
    run(python, "-m", "pip", "install", "-q", "--no-index", wheel)
    runs("venv", version, environment(root / "home", root / "venv/bin"), root / "venv")


def in_conda_layout(wheel, version, root):
    """An interpreter of its own below a prefix, as conda lays it out: no pyvenv.cfg, CONDA_PREFIX set."""
    if "posix_local" in sysconfig.get_scheme_names():
        print("conda layout: SKIPPED: Debian's own Python looks for packages elsewhere than conda's does")
        return
    prefix = root / "miniforge3/envs/train"
    minor = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    library = prefix / "lib" / minor
    (library / "site-packages").mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    (prefix / "bin").mkdir()
    for entry in pathlib.Path(sysconfig.get_paths()["stdlib"]).iterdir():
        if entry.name not in ("site-packages", "dist-packages", "sitecustomize.py"):
            (library / entry.name).symlink_to(entry)
    shutil.copy(os.path.realpath(sys.executable), prefix / "bin" / minor)
    for name in ("python", "python3"):
        (prefix / "bin" / name).symlink_to(minor)
    around = environment(root / "home", prefix / "bin", CONDA_PREFIX=str(prefix), CONDA_DEFAULT_ENV="train",
                         CONDA_EXE=str(root / "miniforge3/bin/conda"))
    pip = next(pathlib.Path(root / "venv/lib").glob("python*/site-packages"))
    run("python3", "-m", "pip", "install", "-q", "--no-index", "--prefix", prefix, wheel,
        env={**around, "PYTHONPATH": str(pip)})
    runs("conda layout", version, around, prefix)


def as_tools(wheel, version, binaries, root):
    """uv and pipx put the program into ~/.local/bin; the training's Python is another one."""
    for name, words in (("uv", ["uv", "tool", "install", "--no-index", "--python", sys.executable, wheel]),
                        ("pipx", ["pipx", "install", "--python", sys.executable, "--pip-args=--no-index", wheel])):
        home = root / f"home-{name}"
        registry = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        around = environment(home, home / ".local/bin", binaries, UV_CACHE_DIR=f"{home}/cache", USE_EMOJI="0", **registry)
        run(*words, env=around)
        around = environment(home, home / ".local/bin", root / "venv/bin")
        check(os.path.exists(home / ".local/bin/oomph"), f"{name}: the program is in ~/.local/bin")
        demo(f"{name} tool", around)


def from_source(version, root):
    python = root / "source/bin/python"
    venv.create(root / "source", with_pip=True)
    target = dict(os.environ, CARGO_TARGET_DIR=str(ROOT / "target"))
    run(python, "-m", "pip", "install", "-q", ROOT, env=target)
    runs("pip install .", version, environment(root / "home", root / "source/bin"), root / "source")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="a virtual environment for maturin and zig, kept")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="where the wheels go")
    parser.add_argument("--without-aarch64", action="store_true")
    parser.add_argument("--without-source", action="store_true", help="do not build with pip install .")
    options = parser.parse_args()
    binaries = tools(options.tools.absolute())
    for old in glob.glob(f"{options.results}/oomph-*.whl"):
        os.remove(old)
    wheel = build(binaries, "x86_64", options.results.absolute())
    version = look_into(wheel, "x86_64")
    if options.without_aarch64:
        print("aarch64: not asked for")
    elif has_target("aarch64-unknown-linux-gnu"):
        look_into(build(binaries, "aarch64", options.results.absolute()), "aarch64")
    else:
        print("aarch64: NOT BUILT: rustup cannot fetch its standard library here")
    with tempfile.TemporaryDirectory(prefix="oomph-wheel-") as root:
        root = pathlib.Path(os.path.realpath(root))
        in_venv(wheel, version, root)
        in_conda_layout(wheel, version, root)
        as_tools(wheel, version, binaries, root)
        if not options.without_source:
            from_source(version, root)
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
