"""Results of a grid, one JSON line each, appended as they are made: a run that is cut off goes on where it was."""
import json
import pathlib


class Results:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.lines = []
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                try:
                    self.lines.append(json.loads(line))
                except ValueError:
                    pass  # the last line of a run that was cut off

    def has(self, **key):
        return any(all(line.get(name) == value for name, value in key.items()) for line in self.lines)

    def add(self, **line):
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def quantile(values, share):
    values = sorted(values)
    return values[round((len(values) - 1) * share)] if values else None


def shown(value, form="%.2f %%"):
    """A figure, or blank where it was not measured."""
    return "" if value is None else form % value
