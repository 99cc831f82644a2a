#!/usr/bin/env python3
"""What may go wrong while training: each says what it was, ends with 1, and leaves nothing behind.

tests/runtime/faults.py TANDEM [--only REGEX] [--kills N] [--seed N]

Processes of a run are killed and stopped at random moments, and so are mpirun and `tandem` themselves; Ctrl-C;
checkpoints are cut off and changed at many places, on a full disk, of another model; data are cut off while they are
read; the loss is no number; a plan is for more devices. After each no process is left, no segment of shared memory
and no temporary file; the newest checkpoint is whole, and from it a run on other devices has the losses of one that
never stopped.
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy

from support import Answer, tandem, worst_difference, verdict
from traces import Traces

# A checkpoint has 6 MB.
MODEL = ["mlp:layers=4,hidden=256,inputs=256,outputs=256", "--batch", 8, "--dtype", "fp64", "--optimizer", "adam", "--lr", 0.002]
PLANS = [(2, "dp"), (4, "fsdp"), (4, "megatron:tp=2,dp=2"), (2, "megatron:tp=1,pp=2,micro=4"), (2, "fsdp"), (1, "dp")]
LIMIT = 1e-9


def own(_, run):
    return run.pid


class Walk:
    def __init__(self, args, directory):
        self.args, self.directory = args, directory
        self.random = random.Random(args.seed)
        self.wrong, self.passed = [], 0
        self.curve, self.begun = None, []

    def note(self, name, right, why=""):
        self.passed += bool(right)
        if not right:
            self.wrong.append(f"{name}: {why}")
        print(f"{name}: {'ok' if right else f'WRONG: {why}'}", flush=True)

    def words(self, steps, kept, plan, *more):
        devices, strategy = plan
        directory = ["--checkpoint", kept, "--checkpoint-every", 3] if kept else []
        words = ["train", *MODEL, "--devices", devices, "--strategy", strategy if devices > 1 else "dp", "--steps", steps]
        return [str(word) for word in [*words, *directory, *more, "--json", "--quiet"]]

    def train(self, *args, traces=None):
        return tandem(self.args.tandem, *self.words(*args), environment=traces and traces.environment)

    def fails(self, name, answer, traces, *said):
        """`said`: what the message has of it."""
        error = answer.error
        text = error and f"{error['where']}: {error['message']} ({error['hint']})"
        left = traces.left()
        self.note(f"{name} [{text}]", answer.code == 1 and text and all(s in text for s in said) and not left,
                  f"left: {left}\n{answer}" if left else answer)

    # --- signals ---

    def begin(self, words, traces):
        run = subprocess.Popen([str(self.args.tandem), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=traces.environment, start_new_session=True)
        self.begun.append(run)
        return run

    def clean_up(self):
        for run in self.begun:
            if run.poll() is None:
                run.terminate()
                run.communicate()

    def end(self, run, limit=120):
        """Whether it did by itself, and its message."""
        try:
            out, _ = run.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()
            return False, ""
        error = Answer([], run.returncode, out, "").error
        return True, error["message"] if error else ""

    def steps_of(self, kept):
        return [int(p.name[5:]) for p in kept.glob("step-*") if re.fullmatch(r"step-\d+", p.name)]

    def newest(self, kept):
        return max(self.steps_of(kept), default=0)

    def wait_for(self, what, limit=300):
        until = time.monotonic() + limit
        while not what() and time.monotonic() < until:
            time.sleep(0.05)
        return what()

    def expect_goes_on(self, name, kept, plan):
        """From the newest checkpoint under another plan, the losses of a run that never stopped."""
        step = self.newest(kept)
        answer = self.train(step + 4, kept, plan, "--resume")
        right = answer.code == 0 and answer.json["first_step"] == step
        if right:
            losses = answer.json["loss"]
            if self.curve is None or len(self.curve) < step + 4:
                self.curve = self.train(step + 100, None, (1, "dp")).json["loss"]
            right = worst_difference(losses, self.curve[step:step + len(losses)]) <= LIMIT
        self.note(f"{name}, resumed after {step} steps", right, answer)

    def hit(self, name, whom, number, plan, other, after, *more, kept_first=True):
        """Sends a signal to one of the run's processes (`whom` picks it) a while after the first checkpoint, or after
        the processes have begun."""
        traces, kept = Traces(), self.directory / name.replace(" ", "_").replace(":", "_")
        run = self.begin(self.words(10**6, kept, plan, *more), traces)
        self.wait_for(lambda: len(traces.named("tandem_worker")) == plan[0] and (not kept_first or self.newest(kept) > 0))
        time.sleep(after)
        if run.poll() is not None:
            self.note(name, False, f"ended before: {run.communicate()}")
            return
        os.kill(whom(traces, run), number)
        ended, said = self.end(run)
        left = traces.left()
        silent = whom is own and number == signal.SIGKILL  # who is killed says nothing
        right = ended and run.returncode != 0 and not left and (said or silent)
        self.note(f"{name} after {after:.2f} s, exit {run.returncode} [{said}]", right, f"ended {ended}, left {left}")
        if kept.exists():
            self.expect_goes_on(name, kept, other)

    def kills(self):
        for i in range(self.args.kills):
            plan = self.random.choice(PLANS)
            rank = self.random.randrange(plan[0])
            self.hit(f"kill {i} {plan[1]} rank {rank}", lambda t, _, r=rank: t.named("tandem_worker")[r], signal.SIGKILL,
                     plan, self.random.choice(PLANS), self.random.random() ** 2 * 4, kept_first=i % 2 == 0)

    def stops(self):
        for rank in range(2):
            self.hit(f"stopped rank {rank}", lambda t, _, r=rank: t.named("tandem_worker")[r], signal.SIGSTOP, PLANS[0],
                     PLANS[1], 1.5, "--timeout", 30)

    def launchers(self):
        self.hit("mpirun killed", lambda t, _: t.named("mpirun")[0], signal.SIGKILL, PLANS[0], PLANS[1], 1.5)
        self.hit("mpirun terminated", lambda t, _: t.named("mpirun")[0], signal.SIGTERM, PLANS[0], PLANS[1], 1.5)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.hit(f"tandem {number.name}", own, number, PLANS[0], PLANS[1], 1.5)

    def control_c(self):
        """As a terminal does it: to all processes of the group."""
        traces, kept = Traces(), self.directory / "control_c"
        run = self.begin(self.words(10**6, kept, PLANS[0]), traces)
        self.wait_for(lambda: self.newest(kept) > 0)
        os.killpg(run.pid, signal.SIGINT)
        ended, said = self.end(run)
        left = traces.left()
        self.note(f"control_c, exit {run.returncode} [{said}]", ended and said and run.returncode != 0 and not left,
                  f"left {left}")
        self.expect_goes_on("control_c", kept, PLANS[1])

    # --- checkpoints ---

    def kept(self, name, plan=(4, "fsdp"), steps=4):
        kept = self.directory / name
        if not kept.exists():
            answer = self.train(steps, kept, plan)
            if answer.code != 0:
                raise SystemExit(str(answer))
        return kept

    def sharded(self):
        kept = self.kept("sharded")
        for i, plan in enumerate(PLANS):
            copy = self.directory / f"sharded{i}"
            shutil.copytree(kept, copy)
            self.expect_goes_on(f"sharded, under {plan[1]} x{plan[0]}", copy, plan)

    def damages(self):
        """Every file of a checkpoint, changed in each of 24 ranges and cut off at as many places."""
        kept = self.kept("whole", (2, "fsdp"))
        newest = kept / f"step-{self.newest(kept)}"
        for path in sorted(newest.iterdir()):
            whole = path.read_bytes()
            size = len(whole)
            borders = sorted({0, 1, 7, 8, size - 1, *(i * size // 12 for i in range(12))})
            for at in borders:
                changed = bytearray(whole)
                changed[at] ^= 1 << self.random.randrange(8)
                self.damaged(f"{path.name} changed at {at} of {size}", path, bytes(changed), kept)
                self.damaged(f"{path.name} cut off at {at} of {size}", path, whole[:at], kept)
            path.unlink()
            self.damaged(f"{path.name} missing", None, b"", kept)
            self.damaged(f"{path.name} longer", path, whole + b"x", kept)
            path.write_bytes(whole)
        self.expect_goes_on("as it was", kept, PLANS[1])

    def damaged(self, name, path, data, kept):
        if path:
            path.write_bytes(data)
        before = {p: p.read_bytes() for p in kept.rglob("*") if p.is_file()}
        traces = Traces()
        answer = self.train(6, kept, (2, "dp"), "--resume", traces=traces)
        self.fails(name, answer, traces, "step-4")
        after = {p: p.read_bytes() for p in kept.rglob("*") if p.is_file()}
        if before != after:
            self.note(f"{name}: the directory", False, f"{sorted(before)} became {sorted(after)}")

    def others(self):
        traces, kept = Traces(), self.kept("others", (2, "fsdp"))
        words = self.words(8, kept, (2, "dp"), "--resume")
        for name, old, new in (("another model", "layers=4", "layers=3"), ("another optimizer", "adam", "sgd"),
                               ("another type", "fp64", "fp32"), ("another batch", "8", "4")):
            changed = [new if w == old else w.replace(old, new) if "=" in old else w for w in words]
            self.fails(name, tandem(self.args.tandem, *changed, environment=traces.environment), traces, "step-4")
        self.fails("not overwritten", self.train(8, kept, (2, "dp"), traces=traces), traces, "not overwritten")
        steep = ["1e300" if w == "0.002" else w for w in self.words(50, None, (2, "dp"))]
        self.fails("no number", tandem(self.args.tandem, *steep, environment=traces.environment), traces, "the loss is")
        plan = self.directory / "four.json"
        tandem(self.args.tandem, "plan", MODEL[0], "--batch", 8, "--machine", "local:4", "-o", plan)
        self.fails("a plan for more devices", tandem(self.args.tandem, "train", plan, "--devices", 2, "--json",
                                                     environment=traces.environment), traces, "is for 4 devices")

    def full_disk(self):
        """A file system with room for two checkpoints."""
        disk = self.directory / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], check=False).returncode != 0:
            print("full disk: skipped, nothing can be mounted")
            return
        try:
            kept, traces = disk / "kept", Traces()
            first = self.train(2, kept, (2, "fsdp"))
            if first.code != 0:
                raise SystemExit(str(first))
            answer = self.train(9, kept, (2, "dp"), "--resume", traces=traces)
            self.fails("full disk", answer, traces, "No space left")
            self.note("full disk: nothing half done", not list(kept.glob("*.new")) and self.newest(kept) >= 2,
                      list(kept.iterdir()))
            copy = self.directory / "from_full_disk"
            shutil.copytree(kept, copy)
            self.expect_goes_on("full disk", copy, PLANS[2])
        finally:
            subprocess.run(["umount", disk], check=True)

    # --- data ---

    def data(self):
        """Cut off while they are read."""
        for devices in (1, 2):
            traces, directory = Traces(), self.directory / f"numbers{devices}"
            directory.mkdir()
            numpy.save(directory / "x.npy", numpy.zeros((20_000, 256)))
            numpy.save(directory / "target.npy", numpy.ones((20_000, 256)))
            run = self.begin(self.words(10**6, None, (devices, "dp"), "--data", directory), traces)
            self.wait_for(lambda: len(traces.named("tandem_worker")) == devices)
            time.sleep(3)
            os.truncate(directory / "x.npy", 4096)
            out, err = run.communicate(timeout=120)
            self.fails(f"data cut off, {devices} devices", Answer([], run.returncode, out, err), traces, "x.npy", "while it was read")


PARTS = ["kills", "stops", "launchers", "control_c", "sharded", "damages", "others", "full_disk", "data"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", type=pathlib.Path)
    parser.add_argument("--only", default="", help=f"a regular expression, of {', '.join(PARTS)}")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        walk = Walk(args, pathlib.Path(scratch))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        # Under nohup, or in the background of a script, they are ignored, and so they would be in what is started here.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(1))
        try:
            for part in PARTS:
                if re.search(args.only, part):
                    getattr(walk, part)()
        finally:
            walk.clean_up()
    return verdict(walk.wrong, f"{walk.passed} passed")


if __name__ == "__main__":
    sys.exit(main())
