"""`python -m oomph`: becomes the program that was installed with this package."""
import os
import sys
import sysconfig


def candidates():
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else "posix_user")
    # pip install --prefix, --target: beside the packages.
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for above in (packages, os.path.join(packages, "..", "..", "..")):
        yield os.path.normpath(os.path.join(above, "bin"))


def main():
    for directory in candidates():
        program = os.path.join(directory, "oomph")
        if os.access(program, os.X_OK):
            os.execv(program, [program] + sys.argv[1:])
    sys.stderr.write("oomph: the program is not beside this package; install it again: pip install --force-reinstall oomph\n")
    sys.exit(125)


if __name__ == "__main__":
    main()
