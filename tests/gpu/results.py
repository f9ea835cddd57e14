"""Results of a grid, one JSON line each, appended as they are made: a run that is cut off goes on where it was."""
import gzip
import json
import pathlib
import shutil


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

    def keep(self, recording, name):
        """Lays a recording beside the results, for whoever asks why a figure is what it is."""
        kept = self.path.with_suffix(".kept")
        kept.mkdir(parents=True, exist_ok=True)
        if pathlib.Path(recording).exists():
            with open(recording, "rb") as source, gzip.open(kept / (name.replace(" ", "-") + ".jsonl.gz"), "wb") as target:
                shutil.copyfileobj(source, target)

    def kept(self, name):
        """A recording that was kept."""
        with gzip.open(self.path.with_suffix(".kept") / (name.replace(" ", "-") + ".jsonl.gz"), "rb") as kept:
            return kept.read()

    def has(self, **key):
        return any(all(line.get(name) == value for name, value in key.items()) for line in self.lines)

    def find(self, **key):
        """The first line that says so."""
        return next(line for line in self.lines if all(line.get(name) == value for name, value in key.items()))

    def add(self, **line):
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def events(recording):
    """Those of a recording, whose last line may have been cut off."""
    for line in pathlib.Path(recording).read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            pass


def share_of(cases, part):
    """The cases of one part, as in `2/3`: the second of three that are run side by side."""
    number, of = (int(word) for word in (part or "1/1").split("/"))
    return cases[number - 1::of]


def quantile(values, share):
    values = sorted(values)
    return values[round((len(values) - 1) * share)] if values else None


def shown(value, form="%.2f %%"):
    """A figure, or blank where it was not measured."""
    return "" if value is None else form % value
