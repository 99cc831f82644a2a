#!/usr/bin/env python3
"""Tests faults during training: each prints an error, exits with 1, and leaves no processes or files behind.

tests/runtime/faults.py TANDEM [--only REGEX] [--kills N] [--seed N]

The faults are: killed and stopped workers at random moments, killed mpirun and `tandem`, Ctrl-C, truncated and changed
checkpoints, a full disk, checkpoints of another model, data that are truncated during reading, a loss that is not
finite, and a plan for more devices. After each, no process, segment of shared memory or temporary file may remain. The
newest checkpoint must be complete, and a run on other devices that resumes from it must have the losses of an
uninterrupted run.
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

from support import Answer, find_worst_difference, print_verdict, run_tandem
from traces import Traces

# A checkpoint of this model has 6 MB.
MODEL = ["mlp:layers=4,hidden=256,inputs=256,outputs=256", "--batch", 8, "--dtype", "fp64", "--optimizer", "adam", "--lr", 0.002]
PLANS = [(2, "dp"), (4, "fsdp"), (4, "megatron:tp=2,dp=2"), (2, "megatron:tp=1,pp=2,micro=4"), (2, "fsdp"), (1, "dp")]
LIMIT = 1e-9


def pick_tandem(_, run):
    """Returns the process id of `tandem`, for send_signal."""
    return run.pid


class Walk:
    """The tests, with their results."""

    def __init__(self, args, directory):
        self.args, self.directory = args, directory
        self.random = random.Random(args.seed)
        self.wrong, self.passed = [], 0
        self.reference, self.runs = None, []

    def record(self, name, right, why=""):
        self.passed += bool(right)
        if not right:
            self.wrong.append(f"{name}: {why}")
        print(f"{name}: {'ok' if right else f'WRONG: {why}'}", flush=True)

    def format_command(self, steps, checkpoint, plan, *more):
        """Returns the words of `tandem train`; `plan` is (devices, strategy)."""
        devices, strategy = plan
        directory = ["--checkpoint", checkpoint, "--checkpoint-every", 3] if checkpoint else []
        words = ["train", *MODEL, "--devices", devices, "--strategy", strategy if devices > 1 else "dp", "--steps", steps]
        return [str(word) for word in [*words, *directory, *more, "--json", "--quiet"]]

    def train(self, *args, traces=None):
        return run_tandem(self.args.tandem, *self.format_command(*args), environment=traces and traces.environment)

    def expect_failure(self, name, answer, traces, *parts):
        """Expects an error whose message has `parts`, and no leftovers."""
        error = answer.error
        text = error and f"{error['where']}: {error['message']} ({error['hint']})"
        leftovers = traces.find_leftovers()
        is_right = answer.code == 1 and text and all(part in text for part in parts) and not leftovers
        self.record(f"{name} [{text}]", is_right, f"left: {leftovers}\n{answer}" if leftovers else answer)

    # --- signals ---

    def start(self, words, traces):
        """Starts a run and returns its process."""
        run = subprocess.Popen([str(self.args.tandem), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=traces.environment, start_new_session=True)
        self.runs.append(run)
        return run

    def clean_up(self):
        for run in self.runs:
            if run.poll() is None:
                run.terminate()
                run.communicate()

    def wait_for_end(self, run, limit=120):
        """Returns whether the run ends by itself, and its error message."""
        try:
            out, _ = run.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()
            return False, ""
        error = Answer([], run.returncode, out, "").error
        return True, error["message"] if error else ""

    def list_steps(self, checkpoint):
        return [int(p.name[5:]) for p in checkpoint.glob("step-*") if re.fullmatch(r"step-\d+", p.name)]

    def find_newest_step(self, checkpoint):
        return max(self.list_steps(checkpoint), default=0)

    def wait_for(self, condition, limit=300):
        until = time.monotonic() + limit
        while not condition() and time.monotonic() < until:
            time.sleep(0.05)
        return condition()

    def expect_resume(self, name, checkpoint, plan):
        """Resumes from the newest checkpoint under another plan, and expects the losses of an uninterrupted run."""
        step = self.find_newest_step(checkpoint)
        answer = self.train(step + 4, checkpoint, plan, "--resume")
        right = answer.code == 0 and answer.json["first_step"] == step
        if right:
            losses = answer.json["loss"]
            if self.reference is None or len(self.reference) < step + 4:
                self.reference = self.train(step + 100, None, (1, "dp")).json["loss"]
            right = find_worst_difference(losses, self.reference[step:step + len(losses)]) <= LIMIT
        self.record(f"{name}, resumed after {step} steps", right, answer)

    def send_signal(self, name, pick, number, plan, other, after, *more, needs_checkpoint=True):
        """Sends signal `number` to the process that `pick` returns, `after` seconds after the first checkpoint.

        Without `needs_checkpoint`, `after` counts from the start of the processes. Then resumes with plan `other`."""
        traces, checkpoint = Traces(), self.directory / name.replace(" ", "_").replace(":", "_")
        run = self.start(self.format_command(10**6, checkpoint, plan, *more), traces)
        self.wait_for(lambda: len(traces.find_processes("tandem_worker")) == plan[0] and
                      (not needs_checkpoint or self.find_newest_step(checkpoint) > 0))
        time.sleep(after)
        if run.poll() is not None:
            self.record(name, False, f"ended before: {run.communicate()}")
            return
        os.kill(pick(traces, run), number)
        ended, message = self.wait_for_end(run)
        leftovers = traces.find_leftovers()
        is_silent = pick is pick_tandem and number == signal.SIGKILL  # a killed process prints nothing
        right = ended and run.returncode != 0 and not leftovers and (message or is_silent)
        self.record(f"{name} after {after:.2f} s, exit {run.returncode} [{message}]", right,
                    f"ended {ended}, left {leftovers}")
        if checkpoint.exists():
            self.expect_resume(name, checkpoint, other)

    def test_kills(self):
        for i in range(self.args.kills):
            plan = self.random.choice(PLANS)
            rank = self.random.randrange(plan[0])
            self.send_signal(f"kill {i} {plan[1]} rank {rank}",
                             lambda t, _, r=rank: t.find_processes("tandem_worker")[r], signal.SIGKILL, plan,
                             self.random.choice(PLANS), self.random.random() ** 2 * 4, needs_checkpoint=i % 2 == 0)

    def test_stops(self):
        for rank in range(2):
            self.send_signal(f"stopped rank {rank}", lambda t, _, r=rank: t.find_processes("tandem_worker")[r],
                             signal.SIGSTOP, PLANS[0], PLANS[1], 1.5, "--timeout", 30)

    def test_launchers(self):
        for name, number in (("killed", signal.SIGKILL), ("terminated", signal.SIGTERM)):
            self.send_signal(f"mpirun {name}", lambda t, _: t.find_processes("mpirun")[0], number, PLANS[0], PLANS[1],
                             1.5)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.send_signal(f"tandem {number.name}", pick_tandem, number, PLANS[0], PLANS[1], 1.5)

    def test_control_c(self):
        """Sends SIGINT to all processes of the group, as a terminal does."""
        traces, checkpoint = Traces(), self.directory / "control_c"
        run = self.start(self.format_command(10**6, checkpoint, PLANS[0]), traces)
        self.wait_for(lambda: self.find_newest_step(checkpoint) > 0)
        os.killpg(run.pid, signal.SIGINT)
        ended, message = self.wait_for_end(run)
        leftovers = traces.find_leftovers()
        self.record(f"control_c, exit {run.returncode} [{message}]",
                    ended and message and run.returncode != 0 and not leftovers, f"left {leftovers}")
        self.expect_resume("control_c", checkpoint, PLANS[1])

    # --- checkpoints ---

    def make_checkpoint(self, name, plan=(4, "fsdp"), steps=4):
        """Returns the directory of a checkpoint after `steps` steps; trains if it does not exist yet."""
        checkpoint = self.directory / name
        if not checkpoint.exists():
            answer = self.train(steps, checkpoint, plan)
            if answer.code != 0:
                raise SystemExit(str(answer))
        return checkpoint

    def test_resharding(self):
        checkpoint = self.make_checkpoint("sharded")
        for i, plan in enumerate(PLANS):
            copy = self.directory / f"sharded{i}"
            shutil.copytree(checkpoint, copy)
            self.expect_resume(f"sharded, under {plan[1]} x{plan[0]}", copy, plan)

    def test_damages(self):
        """Changes and truncates every file of a checkpoint at up to 17 places each."""
        checkpoint = self.make_checkpoint("whole", (2, "fsdp"))
        newest = checkpoint / f"step-{self.find_newest_step(checkpoint)}"
        for path in sorted(newest.iterdir()):
            whole = path.read_bytes()
            size = len(whole)
            borders = sorted({0, 1, 7, 8, size - 1, *(i * size // 12 for i in range(12))})
            for at in borders:
                changed = bytearray(whole)
                changed[at] ^= 1 << self.random.randrange(8)
                self.expect_damage(f"{path.name} changed at {at} of {size}", path, bytes(changed), checkpoint)
                self.expect_damage(f"{path.name} truncated at {at} of {size}", path, whole[:at], checkpoint)
            path.unlink()
            self.expect_damage(f"{path.name} missing", None, b"", checkpoint)
            self.expect_damage(f"{path.name} longer", path, whole + b"x", checkpoint)
            path.write_bytes(whole)
        self.expect_resume("restored", checkpoint, PLANS[1])

    def expect_damage(self, name, path, data, checkpoint):
        """Writes `data` to the file `path` of a checkpoint, and expects an error that changes no file."""
        if path:
            path.write_bytes(data)
        before = {p: p.read_bytes() for p in checkpoint.rglob("*") if p.is_file()}
        traces = Traces()
        answer = self.train(6, checkpoint, (2, "dp"), "--resume", traces=traces)
        self.expect_failure(name, answer, traces, "step-4")
        after = {p: p.read_bytes() for p in checkpoint.rglob("*") if p.is_file()}
        if before != after:
            self.record(f"{name}: the directory", False, f"{sorted(before)} became {sorted(after)}")

    def test_other_models(self):
        traces, checkpoint = Traces(), self.make_checkpoint("others", (2, "fsdp"))
        words = self.format_command(8, checkpoint, (2, "dp"), "--resume")
        for name, old, new in (("another model", "layers=4", "layers=3"), ("another optimizer", "adam", "sgd"),
                               ("another type", "fp64", "fp32"), ("another batch", "8", "4")):
            changed = [new if w == old else w.replace(old, new) if "=" in old else w for w in words]
            answer = run_tandem(self.args.tandem, *changed, environment=traces.environment)
            self.expect_failure(name, answer, traces, "step-4")
        answer = self.train(8, checkpoint, (2, "dp"), traces=traces)
        self.expect_failure("not overwritten", answer, traces, "not overwritten")
        steep = ["1e300" if w == "0.002" else w for w in self.format_command(50, None, (2, "dp"))]
        answer = run_tandem(self.args.tandem, *steep, environment=traces.environment)
        self.expect_failure("no number", answer, traces, "the loss is")
        plan = self.directory / "four.json"
        run_tandem(self.args.tandem, "plan", MODEL[0], "--batch", 8, "--machine", "local:4", "-o", plan)
        answer = run_tandem(self.args.tandem, "train", plan, "--devices", 2, "--json", environment=traces.environment)
        self.expect_failure("a plan for more devices", answer, traces, "is for 4 devices")

    def test_full_disk(self):
        """Trains on a file system with room for two checkpoints."""
        disk = self.directory / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], check=False).returncode != 0:
            print("full disk: skipped, cannot mount a file system")
            return
        try:
            checkpoint, traces = disk / "checkpoint", Traces()
            first = self.train(2, checkpoint, (2, "fsdp"))
            if first.code != 0:
                raise SystemExit(str(first))
            answer = self.train(9, checkpoint, (2, "dp"), "--resume", traces=traces)
            self.expect_failure("full disk", answer, traces, "No space left")
            is_complete = not list(checkpoint.glob("*.new")) and self.find_newest_step(checkpoint) >= 2
            self.record("full disk: no partial checkpoint", is_complete, list(checkpoint.iterdir()))
            copy = self.directory / "from_full_disk"
            shutil.copytree(checkpoint, copy)
            self.expect_resume("full disk", copy, PLANS[2])
        finally:
            subprocess.run(["umount", disk], check=True)

    # --- data ---

    def test_data(self):
        """Truncates data during reading."""
        for devices in (1, 2):
            traces, directory = Traces(), self.directory / f"numbers{devices}"
            directory.mkdir()
            numpy.save(directory / "x.npy", numpy.zeros((20_000, 256)))
            numpy.save(directory / "target.npy", numpy.ones((20_000, 256)))
            run = self.start(self.format_command(10**6, None, (devices, "dp"), "--data", directory), traces)
            self.wait_for(lambda: len(traces.find_processes("tandem_worker")) == devices)
            time.sleep(3)
            os.truncate(directory / "x.npy", 4096)
            out, err = run.communicate(timeout=120)
            answer = Answer([], run.returncode, out, err)
            self.expect_failure(f"data truncated, {devices} devices", answer, traces, "x.npy", "while it was read")


PARTS = {
    "kills": Walk.test_kills, "stops": Walk.test_stops, "launchers": Walk.test_launchers,
    "control_c": Walk.test_control_c, "sharded": Walk.test_resharding, "damages": Walk.test_damages,
    "others": Walk.test_other_models, "full_disk": Walk.test_full_disk, "data": Walk.test_data,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", type=pathlib.Path)
    parser.add_argument("--only", default="", help=f"a regular expression that matches some of {', '.join(PARTS)}")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        walk = Walk(args, pathlib.Path(scratch))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        # Child processes would inherit that nohup and scripts in the background ignore these signals.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(1))
        try:
            for part, test in PARTS.items():
                if re.search(args.only, part):
                    test(walk)
        finally:
            walk.clean_up()
    return print_verdict(walk.wrong, f"{walk.passed} passed")


if __name__ == "__main__":
    sys.exit(main())
