"""`python -m oomph`: becomes the program that was installed with this package."""
import os
import sys
import sysconfig


def candidates():
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    yield os.path.join(packages, "..", "..", "..", "bin")  # PREFIX/lib/python3.11/site-packages
    yield os.path.join(packages, "bin")  # pip install --target
    yield sysconfig.get_path("scripts")


def main():
    for directory in candidates():
        program = os.path.normpath(os.path.join(directory, "oomph"))
        if os.path.isfile(program) and os.access(program, os.X_OK):
            os.execv(program, [program] + sys.argv[1:])
    sys.stderr.write("oomph: the program is not beside this package; install it again: pip install --force-reinstall oomph\n")
    sys.exit(125)


if __name__ == "__main__":
    main()
