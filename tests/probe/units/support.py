"""The probe's package, loaded from its sources under the name that it has in a training."""
import importlib.util
import pathlib
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[3] / "src/probe/python/oomph_probe"


def load():
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location(
        "_oomph_probe", SOURCES / "__init__.py", submodule_search_locations=[str(SOURCES)]
    )
    package = sys.modules["_oomph_probe"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


load()
