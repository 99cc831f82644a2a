#!/usr/bin/env python3
"""Trains on data of every kind from the command line, stopped in the middle of a pass and resumed elsewhere.

tests/runtime/loaders.py TANDEM

Tokens of every width, Criteo's table, arrays of images and of anything else, and directories of pictures: a run on one
device; the same in three parts, on two devices, then four, then one, under other strategies, with the borders in the
middle of a pass over the data. Their losses are those of the run that never stopped, in float64. Pictures train like
the arrays that PyTorch makes of them, JPEGs of every kind like what Pillow (python3-pil) decodes of them; without it
that is skipped. Then what is wrong with data: each says the file and ends with 1.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile
import zlib

import numpy
import torch

try:
    from PIL import Image
except ImportError:
    Image = None

from support import NETWORKS, tandem, worst_difference, verdict

BATCH, STEPS, BORDERS = 8, 12, (5, 9)
SAMPLES = 44  # a pass is five and a half steps
LIMIT = 1e-9
LLAMA, _ = NETWORKS["llama"]
DLRM = "dlrm:tables=4,rows=50,dim=4,dense=13,bag=1,bottom=8-4,top=8-1"
IMAGES, _ = NETWORKS["resnext50"]
MLP, _ = NETWORKS["mlp"]


def tokens(directory, name, kind):
    words = numpy.random.default_rng(1).integers(0, 12, SAMPLES * 8 + 1)
    path = directory / name
    path.write_bytes(words.astype(kind).tobytes())
    return path


def criteo(directory):
    random = numpy.random.default_rng(2)
    lines = []
    for _ in range(SAMPLES):
        counts = [str(n) if random.random() < 0.8 else "" for n in random.integers(0, 1000, 13)]
        categories = [f"{n:08x}" if random.random() < 0.9 else "" for n in random.integers(0, 2**32, 26)]
        lines.append("\t".join([str(random.integers(0, 2)), *counts, *categories]))
    path = directory / "clicks.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def arrays(directory, name, **parts):
    path = directory / name
    path.mkdir()
    for of, values in parts.items():
        numpy.save(path / f"{of}.npy", values)
    return path


def images(directory):
    random = numpy.random.default_rng(3)
    return arrays(directory, "images", image=random.random((SAMPLES, 3, 32, 32), numpy.float32),
                  target=random.integers(0, 5, SAMPLES))


def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def png(pixels):
    """Of colors, with every filter that there is for rows but the last two."""
    height, width, _ = pixels.shape
    rows, before = [], numpy.zeros(3 * width, numpy.uint8)
    for y, row in enumerate(pixels.reshape(height, -1)):
        left = numpy.concatenate([numpy.zeros(3, numpy.uint8), row[:-3]])
        rows.append(bytes([y % 3]) + (row - [0 * row, left, before][y % 3]).tobytes())
        before = row
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b""))


def pictures(directory):
    """The directory, and one with the arrays that PyTorch makes of its pictures."""
    random = numpy.random.default_rng(5)
    path, made, targets = directory / "pictures", [], []
    for s in range(SAMPLES):
        target = 5 * s // SAMPLES
        pixels = random.integers(0, 256, (48, 60, 3), numpy.uint8)
        name = path / f"class {target}" / f"{s:03}{'.png' if s % 2 else '.ppm'}"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(png(pixels) if s % 2 else b"P6\n60 48\n255\n" + pixels.tobytes())
        image = torch.from_numpy(pixels).permute(2, 0, 1)[None].double()
        image = torch.nn.functional.interpolate(image, (32, 40), mode="bilinear", antialias=True)[0, :, :, 4:36].numpy() / 255
        mean, deviation = ([[[x]] for x in values] for values in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
        made.append((image - mean) / deviation)
        targets.append(target)
    return path, arrays(directory, "from_pictures", image=numpy.array(made), target=numpy.array(targets))


def photograph(random):
    """Pixels of something like one: slow changes of light, edges, and noise."""
    y, x = numpy.mgrid[0:48, 0:60] / 48
    light = [numpy.sin(3 * random.random() * x + 4 * random.random() * y + 6 * random.random()) for _ in range(3)]
    pixels = 128 + 70 * numpy.stack(light, axis=-1) + random.normal(0, 6, (48, 60, 3))
    top, left = random.integers(0, 30, 2)
    pixels[top : top + 15, left : left + 20] += random.integers(-80, 80, 3)
    return numpy.clip(pixels, 0, 255).astype(numpy.uint8)


# Each with how Pillow writes it, of what mode.
JPEGS = {"whole colors": ("RGB", {"quality": 92, "subsampling": 0}), "half colors": ("RGB", {"quality": 80, "subsampling": 2}),
         "gray": ("L", {"quality": 85}), "progressive": ("RGB", {"quality": 75, "progressive": True}),
         "inks": ("CMYK", {"quality": 92}), "turned": ("RGB", {"quality": 92})}


def jpegs(directory, kind):
    """A directory of them, and one with the pixels that Pillow finds."""
    mode, how = JPEGS[kind]
    if kind == "turned":  # a camera's note, which neither heeds
        note = Image.Exif()
        note[0x0112] = 6
        how = {**how, "exif": note}
    random = numpy.random.default_rng(6)
    path, decoded = directory / f"{kind} jpegs", directory / f"{kind} decoded"
    for s in range(SAMPLES):
        name = pathlib.Path(f"class {5 * s // SAMPLES}") / f"{s:03}"
        for of in (path, decoded):
            (of / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photograph(random)).convert(mode).save(path / f"{name}.jpg", **how)
        Image.open(path / f"{name}.jpg").convert("RGB").save(decoded / f"{name}.ppm")
    return path, decoded


def numbers(directory):
    random = numpy.random.default_rng(4)
    return arrays(directory, "numbers", x=random.random((SAMPLES, 8)), target=random.random((SAMPLES, 4)))


class Walk:
    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.wrong, self.passed = [], 0

    def train(self, model, data, steps, devices, strategy, *more):
        return tandem(self.program, "train", model, "--batch", BATCH, "--dtype", "fp64", "--optimizer", "momentum", "--lr",
                      0.02, "--data", data, "--steps", steps, "--devices", devices, "--strategy", strategy, *more, "--json",
                      "--quiet")

    def note(self, name, right, why):
        self.passed += bool(right)
        if not right:
            self.wrong.append(f"{name}: {why}")
        print(f"{name}: {'ok' if right else 'WRONG'}", flush=True)

    def resumed(self, name, model, data, strategies, limit=LIMIT):
        whole = self.train(model, data, STEPS, 1, "dp")
        kept = self.directory / f"kept_{name.replace(' ', '_')}"
        losses = []
        for steps, (devices, strategy) in zip((*BORDERS, STEPS), strategies):
            more = ["--checkpoint", kept, "--checkpoint-every", 4, *(["--resume"] if losses else [])]
            part = self.train(model, data, steps, devices, strategy, *more)
            if part.code != 0:
                self.note(name, False, part)
                return
            losses += part.json["loss"]
        if whole.code != 0:
            self.note(name, False, whole)
            return
        off = worst_difference(losses, whole.json["loss"])
        self.note(f"{name}, {off:.1e}", off <= limit, f"losses differ by {off:.1e}\n{losses}\n{whole.json['loss']}")

    def refused(self, name, model, data, words):
        """Before a step or at one, with the file's name and `words`."""
        answer = self.train(model, data, STEPS, 2, "dp")
        error = answer.error
        said = error and f"{error['where']}: {error['message']}"
        right = answer.code == 1 and said and str(data) in said and all(w in said for w in words)
        self.note(f"{name} ({said})", right, answer)


def walk_resumed(walk, directory):
    spread = [(2, "dp"), (4, "megatron:tp=2,dp=2"), (1, "dp")]
    walk.resumed("tokens of 2 bytes", LLAMA, tokens(directory, "t.bin", "<u2"), spread)
    walk.resumed("tokens of 2 bytes, u16", LLAMA, tokens(directory, "t.u16", "<u2"), [(1, "dp"), (2, "fsdp"), (4, "fsdp")])
    walk.resumed("tokens of 4 bytes", LLAMA, tokens(directory, "t.u32", "<u4"),
                 [(2, "megatron:tp=1,pp=2,micro=4"), (2, "deepspeed:zero=1"), (4, "megatron:tp=1,pp=2,micro=2,dp=2")])
    walk.resumed("clicks", DLRM, criteo(directory), [(2, "dlrm_hybrid"), (4, "dp"), (1, "dp")])
    walk.resumed("images", IMAGES, images(directory), [(2, "dp"), (4, "fsdp"), (1, "dp")], 1e-6)  # chaotic: matrix.py
    path, of_pytorch = pictures(directory)
    walk.resumed("pictures", IMAGES, path, [(2, "dp"), (4, "fsdp"), (1, "dp")], 1e-6)
    ours, theirs = (walk.train(IMAGES, data, 1, 2, "dp") for data in (path, of_pytorch))
    alike = ours.code == theirs.code == 0 and worst_difference(ours.json["loss"], theirs.json["loss"]) <= 1e-6
    walk.note("pictures as PyTorch fits them", alike, f"{ours}\n{theirs}")
    walk.resumed("numbers", MLP, numbers(directory), [(2, "megatron:tp=2"), (4, "fsdp"), (1, "dp")])


def walk_jpegs(walk, directory):
    if Image is None:
        print("JPEGs as Pillow decodes them: skipped, there is no Pillow (python3-pil)")
        return
    for kind in JPEGS:
        ours, theirs = (walk.train(IMAGES, data, 1, 2, "dp") for data in jpegs(directory, kind))
        right = ours.code == theirs.code == 0
        off = worst_difference(ours.json["loss"], theirs.json["loss"]) if right else None
        # What is decoded to whole numbers may differ by one where inks become colors.
        right = right and off <= (1e-3 if kind == "inks" else 1e-9)
        walk.note(f"JPEGs of {kind}, {off}", right, f"{ours}\n{theirs}")


def walk_refused(walk, directory):
    (directory / "empty.bin").write_bytes(b"")
    walk.refused("no tokens", LLAMA, directory / "empty.bin", [])
    (directory / "few.bin").write_bytes(bytes(7))
    walk.refused("tokens cut off", LLAMA, directory / "few.bin", [])
    (directory / "odd.u32").write_bytes(bytes(4 * 100 + 3))
    walk.refused("a token cut off", LLAMA, directory / "odd.u32", [])
    (directory / "large.bin").write_bytes(b"\xff\xff" * 200)
    walk.refused("a token beyond the vocabulary", LLAMA, directory / "large.bin", ["65535"])
    walk.refused("no file", LLAMA, directory / "nothing.bin", [])
    walk.refused("an unknown kind", LLAMA, __file__, [])
    walk.refused("tokens for images", IMAGES, directory / "t.bin", [])
    lines = (directory / "clicks.tsv").read_text()
    for name, text in {"cut": lines[:-30], "fields": lines.replace("\t", " ", 3), "words": lines.replace("\t", "\tx", 1),
                       "empty": ""}.items():
        path = directory / f"{name}.tsv"
        path.write_text(text)
        walk.refused(f"clicks, {name}", DLRM, path, [])
    for name, change in {"missing": lambda p: (p / "target.npy").unlink(),
                         "cut": lambda p: (p / "x.npy").write_bytes((directory / "numbers/x.npy").read_bytes()[:-8]),
                         "header": lambda p: (p / "x.npy").write_bytes((directory / "numbers/x.npy").read_bytes()[:40]),
                         "shape": lambda p: numpy.save(p / "x.npy", numpy.zeros((SAMPLES, 7))),
                         "count": lambda p: numpy.save(p / "x.npy", numpy.zeros((SAMPLES - 1, 8))),
                         "text": lambda p: numpy.save(p / "x.npy", numpy.full((SAMPLES, 8), "a")),
                         "order": lambda p: numpy.save(p / "x.npy", numpy.asfortranarray(numpy.zeros((SAMPLES, 8))))}.items():
        path = directory / f"numbers_{name}"
        shutil.copytree(directory / "numbers", path)
        change(path)
        walk.refused(f"arrays, {name}", MLP, path, [])


def walk_refused_pictures(walk, directory):
    changes = {"cut": lambda p: (p / "class 1/010.ppm").write_bytes(b"P6\n60 48\n255\nabc"),
               "png cut": lambda p: (p / "class 1/011.png").write_bytes((p / "class 1/011.png").read_bytes()[:-40]),
               "flipped": lambda p: (p / "class 1/011.png").write_bytes(
                   (p / "class 1/011.png").read_bytes().replace(b"IDATx", b"IDATy")),
               "jpeg cut": lambda p: (p / "class 1/a.jpg").write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF"),
               "empty": lambda p: (p / "class 1/a.jpg").write_bytes(b""),
               "gone": lambda p: (p / "class 1/a.jpg").symlink_to("nowhere"),
               "empty class": lambda p: [path.unlink() for path in (p / "class 1").iterdir()],
               "a class more": lambda p: shutil.copytree(p / "class 0", p / "class 6"),
               "a kind": lambda p: (p / "class 1/a.webp").write_bytes(b"RIFF")}
    for name, change in changes.items():
        path = directory / f"pictures {name}"
        shutil.copytree(directory / "pictures", path)
        change(path)
        walk.refused(f"pictures, {name}", IMAGES, path, ["class"])
    (directory / "no classes").mkdir()
    walk.refused("pictures, no classes", IMAGES, directory / "no classes", ["image.npy"])
    walk.refused("pictures for words", LLAMA, directory / "pictures", ["%tokens"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        walk = Walk(args.tandem, directory)
        walk_resumed(walk, directory)
        walk_jpegs(walk, directory)
        walk_refused(walk, directory)
        walk_refused_pictures(walk, directory)
    return verdict(walk.wrong, f"{walk.passed} passed")


if __name__ == "__main__":
    sys.exit(main())
