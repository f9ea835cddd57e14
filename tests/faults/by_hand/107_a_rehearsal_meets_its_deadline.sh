#!/bin/sh
# A rehearsal meets its deadline at each of its operations, and at any time between them: the program ends as it
# would without it. Needs a Python with torch (one for CPUs will do): PYTHON=/path/to/python
cd "$(dirname "$0")/../../torch" && exec "${PYTHON:-python3}" -m unittest test_deadline
