"""What a process says of itself first."""

import types
import unittest

import support  # noqa: F401
from _oomph_probe.live import hello


class Read:
    backend = None
    resting = "not looked at here"

    def devices(self):
        return []


def said_by(**version):
    torch = types.SimpleNamespace(__version__="2.8.0a0+git5d3e1c2", version=types.SimpleNamespace(**version))
    return hello.compose(torch, 42, Read())


class Rocm(unittest.TestCase):
    def test_a_build_for_amd_says_so_where_its_version_does_not(self):
        self.assertIs(said_by(cuda=None, hip="6.4.43482")["rocm"], True)

    def test_others_say_nothing(self):
        self.assertNotIn("rocm", said_by(cuda="13.0", hip=None))
        self.assertNotIn("rocm", said_by(cuda="13.0"))


if __name__ == "__main__":
    unittest.main()
