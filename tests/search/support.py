"""Parts that the tests of the search share: cases, commands, plain strategies, and a table of results."""

import argparse
import concurrent.futures
import dataclasses
import functools
import json
import math
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import zlib

TOLERANCE = 1.002
HERE = pathlib.Path(__file__).resolve().parent
COMMAND_TIMEOUT_S = 300
ENVIRONMENT = dict(os.environ, TANDEM_NO_CACHE="1", TANDEM_CHECK_BOUNDS="1")


# --- Machines ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Size:
    """A number of nodes and of GPUs per node. The last `slow` nodes of a mixed machine are slow ones."""

    nodes: int
    gpus: int
    slow: int = 0

    @property
    def devices(self):
        return self.nodes * self.gpus


class Machine:
    """A machine at any size: a built-in one, or a machine file with other counts."""

    def __init__(self, name, gpus, directory=None):
        self.name, self.gpus, self.directory = name, gpus, directory

    def make_size(self, nodes):
        return Size(nodes, self.gpus)

    def list_smaller(self, size):
        """Returns parts of `size`: one or two nodes fewer, powers of two, an even number of GPUs per node."""
        powers = [2**k for k in range(size.nodes.bit_length()) if 2**k < size.nodes]
        out = [dataclasses.replace(size, nodes=n) for n in [size.nodes - 1, size.nodes - 2] + powers[::-1] if n > 0]
        if self.directory and size.gpus % 2 == 1:
            out = [dataclasses.replace(size, gpus=size.gpus - 1)] + out
            out += [dataclasses.replace(one, gpus=size.gpus - 1) for one in out[1:3]]
        return list(dict.fromkeys(out))

    def format_argument(self, size):
        """Returns the argument of --machine for `size`."""
        if not self.directory:
            return f"{self.name}:{size.nodes}"
        path = HERE / "machines" / f"{self.name}.machine"
        if size.gpus == self.gpus:
            return f"{make_relative(path)}:{size.nodes}"
        text = re.sub(r"(?m)^level gpu \d+", f"level gpu {size.gpus}", path.read_text())
        return f"{write(self.directory / f'{self.name}_{size.gpus}.machine', text)}:{size.nodes}"


class MixedMachine(Machine):
    """A machine with nodes of two kinds, half of each."""

    def make_size(self, nodes):
        return Size(nodes, self.gpus, slow=nodes // 2)

    def list_smaller(self, size):
        fast, slow = size.nodes - size.slow, size.slow
        pairs = [(fast, 0), (0, slow), (fast, slow - 1), (fast - 1, slow), (fast - 1, slow - 1)]
        pairs += [(2**k, 0) for k in range(fast.bit_length())] + [(2**k, 2**k) for k in range(slow.bit_length())]
        out = [Size(a + b, self.gpus, slow=b) for a, b in pairs if 0 <= a <= fast and 0 <= b <= slow and a + b > 0]
        return [one for one in dict.fromkeys(out) if one != size]

    def format_argument(self, size):
        counts = {"fast": size.nodes - size.slow, "slow": size.slow}
        text = (HERE / "machines" / f"{self.name}.machine").read_text()
        text = re.sub(r"(?m)^level node \d+", f"level node {size.nodes}", text)
        for kind, count in counts.items():
            if count == 0:  # a machine with nodes of one kind has no groups
                text = re.sub(rf"(?ms)^device {kind}-.*?\n\n", "", text)
                text = re.sub(r"(?m)^  group .*\n", "", text)
            text = re.sub(rf"(?m)^(  group {kind} \S+) \d+", rf"\g<1> {count}", text)
        return str(write(self.directory / f"{self.name}_{counts['fast']}_{counts['slow']}.machine", text))


def make_relative(path):
    """Returns the path relative to the working directory if it is below it."""
    return os.path.relpath(path) if not os.path.relpath(path).startswith("..") else str(path)


@functools.cache
def write(path, text):
    """Writes a file atomically, since another run may read it, and returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)
    return path


def build_machines(directory):
    """Returns {name: machine}. Machines write files of other sizes to `directory`, where they remain."""
    return {"dgx_a100_40gb": Machine("dgx_a100_40gb", 8), "mixed": MixedMachine("mixed", 8, directory),
            "five": Machine("five", 5, directory)}


# --- Cases ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Model:
    name: str  # in tables
    text: str  # argument of the commands
    layers: int
    batch: int
    kind: str  # language, experts, tables, images
    dtype: str
    sequence: bool = True
    unit: int = 1  # divisor of all batches: batch norms are over 32 samples


MODELS = {model.name: model for model in [
    Model("llama3_8b", "llama3_8b", 32, 128, "language", "bf16"),
    Model("gpt_13b", "gpt2:layers=40,hidden=5120,heads=40,ffn=20480,seq=2048", 40, 256, "language", "bf16"),
    Model("llama3_70b", "llama3_70b", 80, 256, "language", "bf16"),
    Model("gpt3_175b", "gpt3_175b", 96, 512, "language", "bf16"),
    Model("mixtral_8x7b", "mixtral_8x7b", 32, 256, "experts", "bf16"),
    Model("bert_large", "bert_large", 24, 1024, "language", "bf16"),
    Model("dlrm", "dlrm", 6, 8192, "tables", "fp32", sequence=False),
    Model("resnet50", "resnet50", 16, 2048, "images", "fp32", sequence=False, unit=32),
]}


@dataclasses.dataclass(frozen=True)
class Case:
    """A model on a machine; `more` are flags of both commands."""

    model: Model
    machine: Machine
    size: Size
    batch: int
    dtype: str
    more: tuple = ()

    @property
    def name(self):
        return f"{self.model.name} {self.machine.name}:{self.size.nodes} batch {self.batch}"

    def build_command(self, command, size=None):
        """Returns the words of `command`. Both commands get the same flags, so that their answers are comparable."""
        out = [command, self.model.text, "--machine", self.machine.format_argument(size or self.size),
               "--batch", str(self.batch), "--dtype", self.dtype, "--margin", "0.05"]
        if self.dtype in ("bf16", "fp16"):
            out += ["--grad-dtype", self.dtype]
        return out + list(self.more)


def make_case(model, machine, nodes):
    """Returns a case. Its name determines the batch: a power of two, three times one, or a multiple of the nodes."""
    size = machine.make_size(nodes)
    rng = random.Random(zlib.crc32(f"{model.name} {machine.name} {nodes}".encode()))
    # Some batches of images need several micro-batches, like all batches of language models.
    batch = int(model.batch * rng.choice([0.5, 1, 2, 8] if model.kind == "images" else [0.5, 1, 1, 2]))
    shape = rng.choice(["power", "power", "thrice", "nodes"])
    if shape == "thrice":
        batch = batch * 3 // 4
    elif shape == "nodes":
        part = size.devices * model.unit
        batch = max(1, round(batch / part)) * part
    dtype = "fp16" if machine.name == "mixed" and model.dtype == "bf16" else model.dtype
    return Case(model, machine, size, batch, dtype)


# --- Commands ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Answer:
    code: int
    json: dict
    seconds: float  # CPU time
    error: str = ""

    @property
    def fits(self):
        return self.code == 0 and self.json.get("feasible", True) and self.json.get("iteration_s") is not None

    @property
    def time(self):
        return self.json["iteration_s"] if self.fits else math.inf

    @property
    def crashed(self):
        """Whether a signal or a timeout ended the program, or its answer is no JSON. An error message is no crash."""
        return self.code < 0 or self.code > 100 or (not self.json and not self.error)


class Program:
    def __init__(self, binary):
        self.binary = str(pathlib.Path(binary).resolve())

    def run(self, words):
        """Returns the answer of a command with its CPU time, which other programs change little."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen([self.binary, *words, "--json", "--quiet"], stdout=out, stderr=err,
                                       stdin=subprocess.DEVNULL, env=ENVIRONMENT)
            timer = threading.Timer(COMMAND_TIMEOUT_S, process.kill)
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
            timer.cancel()
            process.returncode = code = os.waitstatus_to_exitcode(status)
            seconds = usage.ru_utime + usage.ru_stime
            out.seek(0)
            err.seek(0)
            text, message = out.read(), err.read().strip()[-500:]
        if code == -signal.SIGKILL:
            return Answer(code, {}, seconds, f"killed, perhaps after {COMMAND_TIMEOUT_S} s")
        try:
            document = json.loads(text)
        except json.JSONDecodeError:
            return Answer(code, {}, seconds, message)
        error = document.get("error", {}) if isinstance(document, dict) else {}
        return Answer(code, document, seconds, error.get("message", "") or message)

    def plan(self, case, *more):
        """Returns the answer of `plan` for the fastest plan, on one thread."""
        return self.run([*case.build_command("plan"), "--tolerance", "0", "--threads", "1", *more])

    def simulate(self, case, size, strategy):
        return self.run([*case.build_command("simulate", size), "--strategy", strategy])


def format_command(words):
    return shlex.join(["tandem", *words])


# --- Plain strategies ----------------------------------------------------------------------------

RECOMPUTE = ("none", "selective", "save_matmuls", "full")
DATA_FAMILIES = ("dp", "deepspeed1", "deepspeed2", "fsdp")


@dataclasses.dataclass(frozen=True)
class Plain:
    """A plain strategy on a machine of some size; `samples` is the micro-batch size of one data-parallel rank."""

    size: Size
    family: str  # megatron, ep, expert, dlrm_hybrid
    samples: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    interleave: int = 1
    zero: int = 0
    recompute: str = "none"
    sp: bool = False
    ep: int = 1

    @property
    def dp(self):
        return self.size.devices // (self.tp * self.pp * self.cp)

    def count_micro_batches(self, batch):
        return batch // (self.dp * self.samples)

    def is_valid(self, case):
        if self.size.devices % (self.tp * self.pp * self.cp) or case.batch % (self.dp * self.samples):
            return False
        if self.pp > max(1, case.model.layers + 2) or (self.interleave > 1 and self.pp == 1):
            return False
        if self.interleave > 1 and self.pp * self.interleave > case.model.layers:
            return False
        if self.size.devices % self.ep or (self.sp and self.tp == 1):
            return False
        return case.model.sequence or (self.tp == self.cp == 1 or self.family == "megatron")

    def format(self, batch):
        """Returns the argument of --strategy."""
        micro_batches = self.count_micro_batches(batch)
        common = [f"micro={micro_batches}"] if micro_batches > 1 or self.pp > 1 else []
        if self.recompute != "none":
            common.append(f"recompute={self.recompute}")
        if self.family != "megatron":
            own = [f"ep={self.ep}"] if self.family == "ep" else []
            return join_settings(self.family, own + common)
        if self.tp == self.pp == self.cp == 1:
            family = {0: "dp", 1: "deepspeed", 2: "deepspeed", 3: "fsdp"}[self.zero]
            return join_settings(family, ([f"zero={self.zero}"] if family == "deepspeed" else []) + common)
        own = [f"tp={self.tp}", f"dp={self.dp}", f"pp={self.pp}"]
        own += [f"cp={self.cp}"] if self.cp > 1 else []
        own += [f"interleave={self.interleave}"] if self.interleave > 1 else []
        own += [f"zero={self.zero}"] if self.zero else []
        own += ["sp"] if self.sp else []
        return join_settings("megatron", own + common)


def join_settings(family, settings):
    return f"{family}:{','.join(settings)}" if settings else family


def list_divisors(n):
    return [k for k in range(1, n + 1) if n % k == 0]


def list_tensor_sizes(case, size):
    """Returns tensor-parallel sizes: divisors of the GPUs of a node, and of two nodes."""
    out = list_divisors(size.gpus)
    if size.nodes % 2 == 0:
        out += [2 * k for k in out]
    return sorted(set(out)) if case.model.kind != "images" else [1]


def list_pipeline_sizes(case, size):
    """Returns pipeline-parallel sizes."""
    most = case.model.layers + 2 if case.model.sequence else 8
    return [k for k in list_divisors(size.devices) if k <= most]


def list_sample_sizes(case, dp):
    """Returns micro-batch sizes that divide a rank's part of the batch: 1, 2, 4, ... and all of it."""
    if case.batch % dp:
        return []
    part = case.batch // dp
    return sorted({2**k for k in range(part.bit_length()) if part % 2**k == 0} | {part})


# --- A run over cases ----------------------------------------------------------------------------


def make_parser(description, budget):
    """Returns the parser of the command line; `budget` is the default of --calls."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, metavar="PATH", help="the program to test")
    parser.add_argument("--sample", type=int, metavar="N", help="number of cases; default: all")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="RNG seed of random cases; default 0")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="only cases whose name contains it")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="number of concurrent cases")
    parser.add_argument("--calls", type=int, default=budget, metavar="N",
                        help=f"limit of simulated strategies per case; default {budget}")
    parser.add_argument("--directory", default=str(pathlib.Path(tempfile.gettempdir()) / "tandem-search-tests"),
                        metavar="PATH", help="directory of machine files at other sizes")
    return parser


def format_seconds(value):
    if value is None or math.isinf(value):
        return "-"
    return f"{value:.4g}"


def run_all(cases, judge, threads):
    """Returns the results of judge(case) for all cases, and prints the row of each when it is done."""
    out = []
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        running = {pool.submit(judge, case): case for case in cases}
        for done in concurrent.futures.as_completed(running):
            out.append(done.result())
            print(out[-1].format_row(), flush=True)
    return out
