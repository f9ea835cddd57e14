"""Which tags are releases: by version and changelog."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import release  # noqa: E402

CHANGELOG = "# Changelog\n\nWords.\n\n## Unreleased\n\n## 0.3.0 (2026-12-01)\n\n* It does more.\n\n## 0.2.0\n\n* It does something.\n"


class Tags(unittest.TestCase):
    def test_a_tag_that_agrees_is_a_release(self):
        self.assertEqual(release.problems("v0.3.0", "0.3.0", "0.3.0", CHANGELOG), [])
        self.assertEqual(release.sections(CHANGELOG)["0.3.0"], "* It does more.")

    def test_another_version_a_missing_part_and_unreleased_entries_are_said(self):
        self.assertEqual(len(release.problems("v0.3.1", "0.3.0", "0.3.0", CHANGELOG)), 1)
        self.assertEqual(len(release.problems("v0.4.0", "0.4.0", "0.4.0", CHANGELOG)), 1)
        left = CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n* Not yet.\n")
        self.assertEqual(len(release.problems("v0.3.0", "0.3.0", "0.3.0", left)), 1)
        self.assertEqual(len(release.problems("v0.3.0", "0.3.0", "0.2.0", CHANGELOG)), 1)
        self.assertEqual(len(release.problems("0.3.0", "0.3.0", "0.3.0", "")), 2)


if __name__ == "__main__":
    unittest.main()
