"""Scripts that a reader of a repository saves for himself: the code blocks of a README, the cells of a notebook.

`made` of a row in `zoo.toml` says which: "train.py = README.md#2" is the second block of Python, "one.py = lesson.ipynb" are all
cells of code, as `jupyter nbconvert --to script` writes them.
"""

import json
import re

BLOCKS = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def of_readme(text, number):
    return BLOCKS.findall(text)[number - 1]


def of_notebook(text):
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    parts = ["#!/usr/bin/env python\n# coding: utf-8\n"]
    parts += [f"\n# In[{number}]:\n\n\n{''.join(cell['source'])}\n" for number, cell in enumerate(cells, 1)]
    return "\n".join(parts)


def make(made, directory, read):
    """Writes the script below `directory`; `read(path)` is the text of a file of the repository."""
    script, _, source = made.partition(" = ")
    path, _, number = source.partition("#")
    text = read(path)
    (directory / script).write_text(of_readme(text, int(number)) if number else of_notebook(text))
