#!/usr/bin/env python3
"""Trains on all kinds of data from the command line, stops in the middle of an epoch and resumes on other devices.

tests/runtime/loaders.py TANDEM

The data are tokens of every width, Criteo's table, arrays of images and of other features, and directories of image
files. Each trains once on one device, and once in three parts on two, four and one devices under other strategies.
The parts end in the middle of an epoch. Both runs must have the same losses in fp64. Image files must train
like the arrays that PyTorch resizes from them, and JPEGs like the pixels that Pillow (python3-pil) decodes; without
Pillow that is skipped. Wrong data must end with an error that names the file, and exit with 1.
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

from support import NETWORKS, find_worst_difference, print_verdict, run_tandem

BATCH, STEPS, BORDERS = 8, 12, (5, 9)
SAMPLES = 44  # an epoch is five and a half steps
LIMIT = 1e-9
LLAMA, _ = NETWORKS["llama"]
DLRM = "dlrm:tables=4,rows=50,dim=4,dense=13,bag=1,bottom=8-4,top=8-1"
IMAGES, _ = NETWORKS["resnext50"]
MLP, _ = NETWORKS["mlp"]


def write_tokens(directory, name, kind):
    words = numpy.random.default_rng(1).integers(0, 12, SAMPLES * 8 + 1)
    path = directory / name
    path.write_bytes(words.astype(kind).tobytes())
    return path


def write_criteo(directory):
    random = numpy.random.default_rng(2)
    lines = []
    for _ in range(SAMPLES):
        counts = [str(n) if random.random() < 0.8 else "" for n in random.integers(0, 1000, 13)]
        categories = [f"{n:08x}" if random.random() < 0.9 else "" for n in random.integers(0, 2**32, 26)]
        lines.append("\t".join([str(random.integers(0, 2)), *counts, *categories]))
    path = directory / "clicks.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_arrays(directory, name, **parts):
    path = directory / name
    path.mkdir()
    for key, values in parts.items():
        numpy.save(path / f"{key}.npy", values)
    return path


def write_image_arrays(directory):
    random = numpy.random.default_rng(3)
    return write_arrays(directory, "images", image=random.random((SAMPLES, 3, 32, 32), numpy.float32),
                        target=random.integers(0, 5, SAMPLES))


def encode_chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def encode_png(pixels):
    """Returns a PNG file of RGB pixels, whose rows use the filters None, Sub and Up."""
    height, width, _ = pixels.shape
    rows, before = [], numpy.zeros(3 * width, numpy.uint8)
    for y, row in enumerate(pixels.reshape(height, -1)):
        left = numpy.concatenate([numpy.zeros(3, numpy.uint8), row[:-3]])
        rows.append(bytes([y % 3]) + (row - [0 * row, left, before][y % 3]).tobytes())
        before = row
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    data = zlib.compress(b"".join(rows))
    return (b"\x89PNG\r\n\x1a\n" + encode_chunk(b"IHDR", header) + encode_chunk(b"IDAT", data) +
            encode_chunk(b"IEND", b""))


def write_image_files(directory):
    """Writes a directory of PNG and PPM files; returns it, and one with the arrays that PyTorch resizes from them."""
    random = numpy.random.default_rng(5)
    path, resized, targets = directory / "image_files", [], []
    for s in range(SAMPLES):
        target = 5 * s // SAMPLES
        pixels = random.integers(0, 256, (48, 60, 3), numpy.uint8)
        name = path / f"class {target}" / f"{s:03}{'.png' if s % 2 else '.ppm'}"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(encode_png(pixels) if s % 2 else b"P6\n60 48\n255\n" + pixels.tobytes())
        image = torch.from_numpy(pixels).permute(2, 0, 1)[None].double()
        image = torch.nn.functional.interpolate(image, (32, 40), mode="bilinear", antialias=True)
        image = image[0, :, :, 4:36].numpy() / 255
        mean, deviation = ([[[x]] for x in values] for values in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
        resized.append((image - mean) / deviation)
        targets.append(target)
    return path, write_arrays(directory, "resized", image=numpy.array(resized), target=numpy.array(targets))


def draw_photograph(random):
    """Returns random pixels like those of a photograph: slow changes of light, edges, and noise."""
    y, x = numpy.mgrid[0:48, 0:60] / 48
    light = [numpy.sin(3 * random.random() * x + 4 * random.random() * y + 6 * random.random()) for _ in range(3)]
    pixels = 128 + 70 * numpy.stack(light, axis=-1) + random.normal(0, 6, (48, 60, 3))
    top, left = random.integers(0, 30, 2)
    pixels[top : top + 15, left : left + 20] += random.integers(-80, 80, 3)
    return numpy.clip(pixels, 0, 255).astype(numpy.uint8)


# Kinds of JPEGs, with Pillow's mode and options to write them.
JPEGS = {"full colors": ("RGB", {"quality": 92, "subsampling": 0}),
         "subsampled colors": ("RGB", {"quality": 80, "subsampling": 2}),
         "gray": ("L", {"quality": 85}), "progressive": ("RGB", {"quality": 75, "progressive": True}),
         "CMYK": ("CMYK", {"quality": 92}), "rotated": ("RGB", {"quality": 92})}


def write_jpegs(directory, kind):
    """Writes a directory of JPEGs; returns it, and one with the pixels that Pillow decodes."""
    mode, options = JPEGS[kind]
    if kind == "rotated":  # EXIF orientation, which neither side applies
        exif = Image.Exif()
        exif[0x0112] = 6
        options = {**options, "exif": exif}
    random = numpy.random.default_rng(6)
    path, decoded = directory / f"{kind} jpegs", directory / f"{kind} decoded"
    for s in range(SAMPLES):
        name = pathlib.Path(f"class {5 * s // SAMPLES}") / f"{s:03}"
        for parent in (path, decoded):
            (parent / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw_photograph(random)).convert(mode).save(path / f"{name}.jpg", **options)
        Image.open(path / f"{name}.jpg").convert("RGB").save(decoded / f"{name}.ppm")
    return path, decoded


def write_features(directory):
    random = numpy.random.default_rng(4)
    return write_arrays(directory, "numbers", x=random.random((SAMPLES, 8)), target=random.random((SAMPLES, 4)))


class Walk:
    """The tests, with their results."""

    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.wrong, self.passed = [], 0

    def train(self, model, data, steps, devices, strategy, *more):
        return run_tandem(self.program, "train", model, "--batch", BATCH, "--dtype", "fp64", "--optimizer", "momentum",
                          "--lr", 0.02, "--data", data, "--steps", steps, "--devices", devices, "--strategy", strategy,
                          *more, "--json", "--quiet")

    def record(self, name, right, why):
        self.passed += bool(right)
        if not right:
            self.wrong.append(f"{name}: {why}")
        print(f"{name}: {'ok' if right else 'WRONG'}", flush=True)

    def expect_resume(self, name, model, data, strategies, limit=LIMIT):
        """Trains in three parts under `strategies`, and expects the losses of an uninterrupted run on one device."""
        reference = self.train(model, data, STEPS, 1, "dp")
        checkpoint = self.directory / f"checkpoint_{name.replace(' ', '_')}"
        losses = []
        for steps, (devices, strategy) in zip((*BORDERS, STEPS), strategies):
            more = ["--checkpoint", checkpoint, "--checkpoint-every", 4, *(["--resume"] if losses else [])]
            part = self.train(model, data, steps, devices, strategy, *more)
            if part.code != 0:
                self.record(name, False, part)
                return
            losses += part.json["loss"]
        if reference.code != 0:
            self.record(name, False, reference)
            return
        off = find_worst_difference(losses, reference.json["loss"])
        self.record(f"{name}, {off:.1e}", off <= limit,
                    f"losses differ by {off:.1e}\n{losses}\n{reference.json['loss']}")

    def expect_error(self, name, model, data, words):
        """Expects an error before or during a step, whose message has the file's name and `words`."""
        answer = self.train(model, data, STEPS, 2, "dp")
        error = answer.error
        message = error and f"{error['where']}: {error['message']}"
        right = answer.code == 1 and message and str(data) in message and all(w in message for w in words)
        self.record(f"{name} ({message})", right, answer)


def test_resume(walk, directory):
    strategies = [(2, "dp"), (4, "megatron:tp=2,dp=2"), (1, "dp")]
    walk.expect_resume("tokens of 2 bytes", LLAMA, write_tokens(directory, "t.bin", "<u2"), strategies)
    walk.expect_resume("tokens of 2 bytes, u16", LLAMA, write_tokens(directory, "t.u16", "<u2"),
                       [(1, "dp"), (2, "fsdp"), (4, "fsdp")])
    walk.expect_resume("tokens of 4 bytes", LLAMA, write_tokens(directory, "t.u32", "<u4"),
                       [(2, "megatron:tp=1,pp=2,micro=4"), (2, "deepspeed:zero=1"),
                        (4, "megatron:tp=1,pp=2,micro=2,dp=2")])
    walk.expect_resume("clicks", DLRM, write_criteo(directory), [(2, "dlrm_hybrid"), (4, "dp"), (1, "dp")])
    strategies = [(2, "dp"), (4, "fsdp"), (1, "dp")]
    walk.expect_resume("images", IMAGES, write_image_arrays(directory), strategies, 1e-6)  # chaotic: support.py
    path, resized = write_image_files(directory)
    walk.expect_resume("image files", IMAGES, path, strategies, 1e-6)
    ours, theirs = (walk.train(IMAGES, data, 1, 2, "dp") for data in (path, resized))
    is_equal = ours.code == theirs.code == 0 and find_worst_difference(ours.json["loss"], theirs.json["loss"]) <= 1e-6
    walk.record("image files as PyTorch resizes them", is_equal, f"{ours}\n{theirs}")
    walk.expect_resume("features", MLP, write_features(directory), [(2, "megatron:tp=2"), (4, "fsdp"), (1, "dp")])


def test_jpegs(walk, directory):
    if Image is None:
        print("JPEGs as Pillow decodes them: skipped, there is no Pillow (python3-pil)")
        return
    for kind in JPEGS:
        ours, theirs = (walk.train(IMAGES, data, 1, 2, "dp") for data in write_jpegs(directory, kind))
        right = ours.code == theirs.code == 0
        off = find_worst_difference(ours.json["loss"], theirs.json["loss"]) if right else None
        # The conversion of CMYK to RGB rounds to integers, which may differ by one.
        right = right and off <= (1e-3 if kind == "CMYK" else 1e-9)
        walk.record(f"JPEGs, {kind}, {off}", right, f"{ours}\n{theirs}")


def test_wrong_data(walk, directory):
    (directory / "empty.bin").write_bytes(b"")
    walk.expect_error("no tokens", LLAMA, directory / "empty.bin", [])
    (directory / "few.bin").write_bytes(bytes(7))
    walk.expect_error("tokens truncated", LLAMA, directory / "few.bin", [])
    (directory / "odd.u32").write_bytes(bytes(4 * 100 + 3))
    walk.expect_error("a token truncated", LLAMA, directory / "odd.u32", [])
    (directory / "large.bin").write_bytes(b"\xff\xff" * 200)
    walk.expect_error("a token beyond the vocabulary", LLAMA, directory / "large.bin", ["65535"])
    walk.expect_error("no file", LLAMA, directory / "nothing.bin", [])
    walk.expect_error("an unknown kind", LLAMA, __file__, [])
    walk.expect_error("tokens for images", IMAGES, directory / "t.bin", [])
    lines = (directory / "clicks.tsv").read_text()
    for name, text in {"cut": lines[:-30], "fields": lines.replace("\t", " ", 3), "words": lines.replace("\t", "\tx", 1),
                       "empty": ""}.items():
        path = directory / f"{name}.tsv"
        path.write_text(text)
        walk.expect_error(f"clicks, {name}", DLRM, path, [])
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
        walk.expect_error(f"arrays, {name}", MLP, path, [])


def test_wrong_image_files(walk, directory):
    changes = {"cut": lambda p: (p / "class 1/010.ppm").write_bytes(b"P6\n60 48\n255\nabc"),
               "png cut": lambda p: (p / "class 1/011.png").write_bytes((p / "class 1/011.png").read_bytes()[:-40]),
               "flipped": lambda p: (p / "class 1/011.png").write_bytes(
                   (p / "class 1/011.png").read_bytes().replace(b"IDATx", b"IDATy")),
               "jpeg cut": lambda p: (p / "class 1/a.jpg").write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF"),
               "empty": lambda p: (p / "class 1/a.jpg").write_bytes(b""),
               "gone": lambda p: (p / "class 1/a.jpg").symlink_to("nowhere"),
               "empty class": lambda p: [path.unlink() for path in (p / "class 1").iterdir()],
               "additional class": lambda p: shutil.copytree(p / "class 0", p / "class 6"),
               "unknown kind": lambda p: (p / "class 1/a.webp").write_bytes(b"RIFF")}
    for name, change in changes.items():
        path = directory / f"image files {name}"
        shutil.copytree(directory / "image_files", path)
        change(path)
        walk.expect_error(f"image files, {name}", IMAGES, path, ["class"])
    (directory / "no classes").mkdir()
    walk.expect_error("image files, no classes", IMAGES, directory / "no classes", ["image.npy"])
    walk.expect_error("image files for tokens", LLAMA, directory / "image_files", ["%tokens"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        walk = Walk(args.tandem, directory)
        test_resume(walk, directory)
        test_jpegs(walk, directory)
        test_wrong_data(walk, directory)
        test_wrong_image_files(walk, directory)
    return print_verdict(walk.wrong, f"{walk.passed} passed")


if __name__ == "__main__":
    sys.exit(main())
