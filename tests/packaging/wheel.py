"""Builds the wheels, looks into them, installs them the ways that people do, and runs what was installed.

    python3 tests/packaging/wheel.py --tools DIR --results DIR [--aarch64-rustc DIR/rustc] [--without-source]

Needs Rust, Python 3.8 or later with venv, and PyPI (maturin, ziglang, uv, pipx). What is installed runs in a home directory
of its own, with nothing in PATH but its environment and the system. The wheel for aarch64 is built where a rustc has
the standard library for it: the one in PATH, or the one that aarch64.py has fetched; with qemu-aarch64-static it is also run.
"""
import argparse
import email
import glob
import json
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
LARGEST = 7_000_000
GLIBC = (2, 17)
MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
PASSED = []


def run(*words, **more):
    words = [str(word) for word in words]
    print("$", " ".join(words), flush=True)
    return subprocess.run(words, check=True, **more)


def ask(*words, **more):
    return run(*words, stdout=subprocess.PIPE, text=True, **more).stdout.strip()


def check(holds, words):
    if not holds:
        raise SystemExit(f"FAILED: {words}")
    PASSED.append(words)
    print(f"  ok: {words}", flush=True)


def tools(directory):
    python = directory / "bin/python"
    if not python.exists():
        venv.create(directory, with_pip=True)
    run(python, "-m", "pip", "install", "-q", "-r", ROOT / "tests/packaging/requirements.txt")
    return directory / "bin"


def has_library(rustc, target):
    """Whether this compiler has the standard library for it."""
    asked = subprocess.run([rustc, "--print", "target-libdir", "--target", target], capture_output=True, text=True)
    return asked.returncode == 0 and any(pathlib.Path(asked.stdout.strip()).glob("libstd-*.rlib"))


def build(binaries, machine, results, rustc=None):
    target = f"{machine}-unknown-linux-gnu"
    environment = dict(os.environ, PATH=f"{binaries}:{os.environ['PATH']}")
    if rustc:
        # A directory of its own: what another version has compiled for this machine is of no use to it.
        environment.update(RUSTC=str(rustc), CARGO_TARGET_DIR=str(ROOT / "target/other-rustc"))
    run(binaries / "maturin", "build", "--release", "--locked", "--zig", "--compatibility", "manylinux_2_17",
        "--target", target, "--out", results, cwd=ROOT, env=environment)
    wheels = glob.glob(f"{results}/oomph-*manylinux_2_17_{machine}*.whl")
    check(len(wheels) == 1, f"one wheel for {machine}: {wheels}")
    return pathlib.Path(wheels[0])


def look_into(wheel, machine):
    size = wheel.stat().st_size
    check(size <= LARGEST, f"{wheel.name} has {size:,} bytes")
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    names = list(contents)
    binary = next(contents[name] for name in names if name.endswith(".data/scripts/oomph"))
    metadata = email.message_from_bytes(next(contents[name] for name in names if name.endswith("/METADATA")))
    check(binary[:4] == b"\x7fELF" and struct.unpack("<H", binary[18:20])[0] == MACHINES[machine], f"the program is for {machine}")
    asked = max(tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_(\d+\.\d+)", binary))
    check(asked <= GLIBC, f"it asks for glibc {asked[0]}.{asked[1]}; the program has {len(binary):,} bytes")
    for part, source in (("oomph/__main__.py", "src/wheel/oomph/__main__.py"),
                         (".data/data/share/man/man1/oomph.1", "src/commands/help/oomph.1"),
                         (".dist-info/licenses/LICENSE", "LICENSE"), ("/licenses/src/THIRD-PARTY.txt", "src/THIRD-PARTY.txt"),
                         ("/uplot/LICENSE", "src/report/page/assets/uplot/LICENSE")):
        found = [name for name in names if name.endswith(part)]
        check(len(found) == 1 and contents[found[0]] == (ROOT / source).read_bytes(), f"{source} is in it")
    extra = [name for name in names if name.endswith((".py", ".pth")) and not name.startswith("oomph/__")]
    check(not extra, "Python finds nothing else in it")
    for field in ("Version", "Summary", "Author", "License-Expression", "Requires-Python", "Description-Content-Type", "Keywords"):
        check(metadata[field], f"{field}: {metadata[field]}")
    check(not metadata.get_all("Requires-Dist"), "it depends on no package")
    return metadata["Version"]


def emulated(wheel, version, rustc, root):
    """Runs the program for aarch64, as far as one process goes, where there are an emulator and a C library."""
    emulator, library = shutil.which("qemu-aarch64-static"), rustc and rustc.parent / "aarch64"
    if not emulator or not library or not library.exists():
        print("aarch64: not run: it needs qemu-aarch64-static, and the C library that aarch64.py fetches")
        return
    with zipfile.ZipFile(wheel) as archive:
        program = archive.extract(f"oomph-{version}.data/scripts/oomph", root)
    os.chmod(program, 0o755)
    log = root / "oom.log"
    log.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
                   " of which 1.00 GiB is free.\n")
    around = environment(root / "home-aarch64")
    for words, wanted in ((["--version"], f"oomph {version}"), (["explain", log], "requested       2.00 GiB"),
                          (["plan", "--", "python3", ROOT / "demo/train.py", "--batch-size", "64"], "--batch-size 32")):
        said = ask(emulator, "-L", library, program, *words, env=around)
        check(wanted in said, f"aarch64, emulated: oomph {words[0]} says {wanted!r}")


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
         "--batch-size", "64", "--scenario", "growth"],
        env=around, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    events = [json.loads(line) for line in recording.read_text().splitlines()]
    version = ask("python3", "-c", "import platform; print(platform.python_version())", env=around)
    hello = next((event for event in events if event["event"] == "hello"), {})
    check(hello.get("python") == version, f"{name}: the probe is loaded into Python {version}")
    samples = sum(event["event"] == "sample" for event in events)
    check(samples > 10, f"{name}: the probe has sent {samples} samples")
    check(done.returncode == 1 and "oomph: advice:" in done.stderr, f"{name}: the demo's OOM is explained")


def in_venv(wheel, version, root):
    python = root / "venv/bin/python"
    venv.create(root / "venv", with_pip=True)
    run(python, "-m", "pip", "install", "-q", "--no-index", wheel)
    runs("venv", version, environment(root / "home", root / "venv/bin"), root / "venv")


def in_conda_layout(wheel, version, binaries, root):
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
    run(binaries / "uv", "pip", "install", "-q", "--no-index", "--python", prefix / "bin/python", wheel, env=around)
    runs("conda layout", version, around, prefix)


def as_tools(what, name, binaries, root):
    """uv and pipx put the program into ~/.local/bin; the training's Python is another one."""
    for tool, words in (("uv", ["uv", "tool", "install", "-q", "--python", sys.executable, what]),
                        ("pipx", ["pipx", "install", "--python", sys.executable, what])):
        home = root / f"home-{tool}-{name}"
        # Building needs what Rust needs as well.
        kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "CARGO_", "RUSTUP_"))}
        kept.setdefault("CARGO_HOME", os.path.expanduser("~/.cargo"))
        kept.setdefault("RUSTUP_HOME", os.path.expanduser("~/.rustup"))
        rust = [os.path.dirname(shutil.which(program)) for program in ("cargo", "rustc")]
        around = environment(home, home / ".local/bin", binaries, *rust, UV_CACHE_DIR=f"{home}/cache",
                             USE_EMOJI="0", CARGO_TARGET_DIR=str(ROOT / "target"), **kept)
        run(*words, env=around)
        check(os.access(home / ".local/bin/oomph", os.X_OK), f"{tool}, {name}: the program is in ~/.local/bin")
        demo(f"{tool} {name}", environment(home, home / ".local/bin", root / "venv/bin"))


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
    parser.add_argument("--aarch64-rustc", type=pathlib.Path, help="a compiler for aarch64; without it, that in PATH")
    parser.add_argument("--without-source", action="store_true", help="do not build with pip, uv and pipx")
    options = parser.parse_args()
    binaries, results = tools(options.tools.absolute()), options.results.absolute()
    for old in glob.glob(f"{results}/oomph-*.whl"):
        os.remove(old)
    with tempfile.TemporaryDirectory(prefix="oomph-wheel-") as root:
        root = pathlib.Path(os.path.realpath(root))
        wheel = build(binaries, "x86_64", results)
        version = look_into(wheel, "x86_64")
        in_venv(wheel, version, root)
        in_conda_layout(wheel, version, binaries, root)
        as_tools(wheel, "wheel", binaries, root)
        if not options.without_source:
            from_source(version, root)
            as_tools(ROOT, "source", binaries, root)
        rustc = options.aarch64_rustc.absolute() if options.aarch64_rustc and options.aarch64_rustc.exists() else None
        if has_library(rustc or "rustc", "aarch64-unknown-linux-gnu"):
            other = build(binaries, "aarch64", results, rustc)
            look_into(other, "aarch64")
            emulated(other, version, rustc, root)
        else:
            print("aarch64: NOT BUILT: this rustc has no standard library for it; rustup target add "
                  "aarch64-unknown-linux-gnu, or see aarch64.py")
    print(f"{len(PASSED)} passed, 0 failed")


if __name__ == "__main__":
    main()
