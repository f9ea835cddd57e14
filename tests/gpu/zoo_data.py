"""Data made on the spot for the programs of the zoo: as much as a training needs to take its first steps, in the files that it
looks for. Values are random; nothing is downloaded.

    cifar10 DIR   cifar100 DIR   mnist DIR   images DIR   masks DIR   text FILE   pairs FILE   gzip FILE   tokens FILE
    digits DIR   lines FILE   interactions FILE   bodies DIR   stl10 DIR   triples DIR   characters FILE
    clouds DIR   lesions DIR   voices DIR   table FILE

`carried FILE` is no data: a file of the program that its repository keeps too large for the mirror, laid into `--carried`.

Torchvision compares the MD5 of CIFAR's files, which made ones cannot have: `accept_made_files` turns that check off in the
installed package. Only for a machine that is thrown away afterwards.
"""

import gzip
import json
import os
import pickle
import re
import shutil
from pathlib import Path

# Enough for some 40 steps of the largest batch; an epoch that ends early brings an evaluation into the first steps.
IMAGES = 640
WORDS = 400_000
ENWIK8 = 95_000_000


def generator():
    import numpy

    return numpy.random.default_rng(0)


def rows_of_images(count, width):
    import numpy

    return generator().integers(0, 256, (count, width), dtype=numpy.uint8)


def batch_of_cifar(path, count, labels):
    labelled = {name: [i % many for i in range(count)] for name, many in labels.items()}
    path.write_bytes(pickle.dumps({"data": rows_of_images(count, 3072), **labelled}))


def cifar10(root):
    place = root / "cifar-10-batches-py"
    place.mkdir(parents=True)
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        batch_of_cifar(place / name, 10_000, {"labels": 10})
    (place / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"class {i}" for i in range(10)]}))


def cifar100(root):
    place = root / "cifar-100-python"
    place.mkdir(parents=True)
    for name, count in (("train", 50_000), ("test", 10_000)):
        batch_of_cifar(place / name, count, {"fine_labels": 100, "coarse_labels": 20})
    (place / "meta").write_bytes(pickle.dumps({"fine_label_names": [f"class {i}" for i in range(100)]}))


def mnist(root):
    place = root / "MNIST" / "raw"
    place.mkdir(parents=True)
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        sizes = b"".join(number.to_bytes(4, "big") for number in (count, 28, 28))
        (place / f"{part}-images-idx3-ubyte").write_bytes(
            b"\0\0\x08\x03" + sizes + rows_of_images(count, 784).tobytes()
        )
        labels = bytes(i % 10 for i in range(count))
        (place / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + count.to_bytes(4, "big") + labels)


def images(root, classes=4, side=256):
    import numpy
    from PIL import Image

    for number in range(classes):
        (root / f"class{number}").mkdir(parents=True)
    picture = generator().integers(0, 256, (side, side, 3)).astype("uint8")
    for number in range(IMAGES):
        shifted = picture + numpy.uint8(number % 251)
        Image.fromarray(shifted).save(root / f"class{number % classes}" / f"{number}.jpg", quality=60)


def masks(root, side=512, count=160):
    from PIL import Image

    for part in ("imgs", "masks"):
        (root / part).mkdir(parents=True)
    picture = generator().integers(0, 256, (side, side, 3)).astype("uint8")
    for number in range(count):
        Image.fromarray(picture).save(root / "imgs" / f"{number}.jpg", quality=60)
        Image.fromarray((picture[:, :, 0] > 127).astype("uint8")).save(root / "masks" / f"{number}.png")


def words(count):
    return [f"w{number}" for number in generator().zipf(1.3, count) % 5000]


def text(path):
    listed = words(WORDS)
    # One program samples from a line of its own.
    path.write_text(
        "O God, O God!\n"
        + "\n".join(" ".join(listed[start : start + 20]) for start in range(0, len(listed), 20))
        + "\n"
    )


def pairs(path):
    listed = words(WORDS)
    lines = [" ".join(listed[start : start + 60]) for start in range(0, len(listed), 120)]
    others = [" ".join(listed[start + 60 : start + 120]) for start in range(0, len(listed), 120)]
    path.write_text("".join(f"{one}\t{other}\n" for one, other in zip(lines, others)))


def digits(root, count=400):
    from PIL import Image

    for number in range(10):
        (root / str(number)).mkdir(parents=True)
        for index, row in enumerate(rows_of_images(count, 784)):
            Image.fromarray(row.reshape(28, 28)).save(root / str(number) / f"{index}.png")


def lines(path):
    listed = words(WORDS)
    texts = (" ".join(listed[start : start + 300]) for start in range(0, len(listed), 300))
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def compressed(path):
    block = generator().integers(32, 127, 1 << 20).astype("uint8").tobytes()
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(ENWIK8 // len(block) + 1):
            file.write(block)


def tokens(path):
    generator().integers(0, 32_000, 4_000_000).astype("uint16").tofile(path)


def interactions(path):
    """Who has bought what, in order: a user and an item a line, each counted from 1."""
    items = generator().zipf(1.2, 200_000) % 3000 + 1
    users = generator().integers(1, 2001, 200_000)
    lines = (f"{user} {item}\n" for user, item in zip(sorted(users), items))
    path.write_text("".join(lines))


def series(path, hours=17_420, columns=("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")):
    """Two years of hourly measurements with their dates, in columns of the names that forecasts of transformers look for."""
    import datetime

    first = datetime.datetime(2016, 7, 1)
    rows = generator().normal(size=(hours, len(columns)))
    lines = (
        f"{first + datetime.timedelta(hours=hour)}," + ",".join(f"{value:.3f}" for value in row) + "\n"
        for hour, row in enumerate(rows)
    )
    path.write_text(",".join(("date", *columns)) + "\n" + "".join(lines))


def bodies(root, samples=3000, steps=49, count=5):
    """Trajectories of a few charged bodies, with the names that an n-body data set's parts have."""
    import numpy

    root.mkdir(parents=True)
    for part in ("train", "valid", "test"):
        some = samples if part == "train" else 400
        of = f"{part}_charged{count}_initvel1small.npy"
        for what in ("loc", "vel"):
            numpy.save(root / f"{what}_{of}", generator().normal(size=(some, steps, 3, count)).astype("float32"))
        charges = generator().choice([-1.0, 1.0], (some, count, 1))
        numpy.save(root / f"charges_{of}", charges)
        numpy.save(root / f"edges_{of}", charges @ charges.transpose(0, 2, 1))


def stl10(root):
    """Images of 96 by 96, with labels and without."""
    place = root / "stl10_binary"
    place.mkdir(parents=True)
    for part, count in (("train", 500), ("test", 100), ("unlabeled", 1500)):
        (place / f"{part}_X.bin").write_bytes(rows_of_images(count, 3 * 96 * 96).tobytes())
        (place / f"{part}_y.bin").write_bytes(bytes(i % 10 + 1 for i in range(count)))
    (place / "class_names.txt").write_text("".join(f"class{i}\n" for i in range(10)))
    (place / "fold_indices.txt").write_text("0 1 2 3\n" * 10)


def triples(root, entities=15_000, relations=1300):
    """Facts of a knowledge graph: what is related to what, and how."""
    root.mkdir(parents=True)
    for name, count in (("entities", entities), ("relations", relations)):
        (root / f"{name}.dict").write_text("".join(f"{number}\t/{name}/{number}\n" for number in range(count)))
    for part, count in (("train", 60_000), ("valid", 64), ("test", 64)):
        rows = zip(*(generator().integers(0, most, count) for most in (entities, relations, entities)))
        lines = (f"/entities/{one}\t/relations/{how}\t/entities/{other}\n" for one, how, other in rows)
        (root / f"{part}.txt").write_text("".join(lines))


def characters(path, classes=1623):
    """Twenty drawings of each of many characters, as one array."""
    import numpy

    with path.open("wb") as file:
        numpy.save(file, generator().random((classes, 20, 1, 28, 28)).astype("float32"))


def clouds(root, classes=40, each=12):
    """Points on surfaces, with their normals, a file for each."""
    import numpy

    names = [f"shape{number}" for number in range(classes)]
    root.mkdir(parents=True)
    (root / "modelnet40_shape_names.txt").write_text("".join(f"{name}\n" for name in names))
    points = generator().normal(size=(1100, 6)).round(4)
    for part, count in (("train", each), ("test", 2)):
        listed = [(name, f"{name}_{part}{number}") for name in names for number in range(count)]
        (root / f"modelnet40_{part}.txt").write_text("".join(f"{one}\n" for _, one in listed))
        for name, one in listed:
            (root / name).mkdir(exist_ok=True)
            numpy.savetxt(root / name / f"{one}.txt", points, fmt="%.4f", delimiter=",")


def lesions(root, side=256):
    """Pictures with a mask each, in three parts."""
    from PIL import Image

    picture = generator().integers(0, 256, (side, side, 3)).astype("uint8")
    for part, count in (("train", 160), ("valid", 8), ("test", 8)):
        for folder in (part, f"{part}_GT"):
            (root / folder).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(picture).save(root / part / f"ISIC_{number:07}.jpg", quality=60)
            mask = Image.fromarray((picture[:, :, 0] > 127).astype("uint8") * 255)
            mask.save(root / f"{part}_GT" / f"ISIC_{number:07}_segmentation.png")


def voices(root, count=200, frames=300, hop=200, mels=80):
    """Waves with their spectrograms, and a list of them."""
    import numpy

    for folder in ("mels", "audio"):
        (root / folder).mkdir(parents=True)
    listed = []
    for number in range(count):
        numpy.save(root / "audio" / f"audio-{number}.npy", generator().uniform(-1, 1, frames * hop).astype("float32"))
        numpy.save(root / "mels" / f"mel-{number}.npy", generator().normal(size=(frames, mels)).astype("float32"))
        listed.append(f"audio-{number}.npy|mel-{number}.npy|embed-{number}.npy|{frames * hop}|{frames}|words\n")
    (root / "train.txt").write_text("".join(listed))


def table(path, rows=1_000_000, columns=9):
    """Measurements, a row each."""
    import numpy

    with path.open("wb") as file:
        numpy.save(file, generator().normal(size=(rows, columns)))


MAKERS = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "mnist": mnist,
    "images": images,
    "masks": masks,
    "text": text,
    "pairs": pairs,
    "gzip": compressed,
    "tokens": tokens,
    "digits": digits,
    "lines": lines,
    "interactions": interactions,
    "series": series,
    "bodies": bodies,
    "stl10": stl10,
    "triples": triples,
    "characters": characters,
    "clouds": clouds,
    "lesions": lesions,
    "voices": voices,
    "table": table,
}

# A package that only reports elsewhere: anything asked of it is something that can be called, entered and asked again.
STUB = """
class Anything:
    def __init__(self, *_, **__): pass
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return Anything()
    def __call__(self, *_, **__): return Anything()
    def __enter__(self): return self
    def __exit__(self, *_): return False
    def __setitem__(self, *_): pass

def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    return Anything()
"""
# Where there is no terminal `stty size` fails, and a progress bar of several programs needs its answer.
STTY = "#!/bin/sh\necho 24 80\n"


def make(what, directory, shared, carried):
    """Makes one entry of a program's `data`, once on this machine; later programs get a link to it."""
    maker, _, place = what.partition(" ")
    target = Path(os.path.expanduser(place))
    target = target if target.is_absolute() else directory / target
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if maker == "carried":
        shutil.copy(carried / target.name, target)
        return
    # A program may have a folder of its own where it looks for data: then only a part of what is made is linked.
    maker, _, part = maker.partition("/")
    target.symlink_to(make_once(maker, shared) / part)


def make_once(maker, shared):
    kept = shared / maker
    if not kept.exists():
        making = shared / f".{maker}.part"
        shutil.rmtree(making, ignore_errors=True)
        shared.mkdir(parents=True, exist_ok=True)
        MAKERS[maker](making)
        making.rename(kept)
    return kept


# A tokenizer whose vocabulary would have to be downloaded: a byte is a token.
TOKENIZER = """
class Bytes:
    n_vocab = eot_token = 50256
    def encode(self, text, **_): return list(text.encode())
    encode_ordinary = encode
    def decode(self, tokens): return bytes(token % 256 for token in tokens).decode(errors="replace")

def get_encoding(_): return Bytes()
encoding_for_model = get_encoding
"""
STUBS = {"tiktoken": TOKENIZER}


def stub(names, place):
    """A folder with stand-ins for packages that only report elsewhere, draw, or have to download what they need."""
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        folder = place
        for part in name.split("."):
            folder /= part
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").write_text(STUBS.get(name, STUB))


def accept_made_files():
    """Turns off torchvision's comparison of MD5 in the installed package."""
    import torchvision.datasets.utils as utils

    source = Path(utils.__file__)
    written = source.read_text()
    begins = re.search(r"def check_md5\(.*\) -> bool:\n", written)
    if begins is None:
        raise SystemExit(f"{source}: check_md5 is written otherwise; CIFAR files made here cannot be used")
    if not written[begins.end() :].startswith("    return True\n"):
        source.write_text(written[: begins.end()] + "    return True\n" + written[begins.end() :])
