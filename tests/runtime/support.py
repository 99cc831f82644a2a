"""Networks and helpers for the tests of the runtime, which run `tandem` as a user does."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Plans must not depend on a profile of this computer.
ENVIRONMENT = dict(os.environ, TANDEM_NO_CACHE="1")

# Small versions of all networks, with the number of steps to compare in fp64. Small convolutional networks that
# normalize over few elements are chaotic: differences of 1e-16 grow a hundredfold in every step, on one device, too
# (Inception: 4e-16, 1.4e-12, 1.1e-8).
NETWORKS = {
    "mlp": ("mlp:layers=4,hidden=16,inputs=8,outputs=4", 50),
    "resnext50": ("resnext50:image=32,classes=5,width=4,blocks=1-2,groups=4,group_width=2,bn_group=2", 3),
    "inception_v3": ("inception_v3:image=75,width=4,classes=6,bn_group=2", 2),
    "bert_large": ("bert_large:layers=2,hidden=16,heads=4,ffn=32,vocab=12,seq=8,types=2", 50),
    "dlrm": ("dlrm:tables=4,rows=8,dim=4,dense=4,bag=2,bottom=8-4,top=8-2", 50),
    "xdl": ("xdl:tables=4,rows=8,dim=4,bag=2,top=8-2", 50),
    "candle_uno": ("candle_uno:towers=2,layers=2,hidden=8,features=4-4,doses=1,top_layers=2", 50),
    "llama": ("llama2_70b:layers=4,hidden=16,heads=4,kv_heads=2,ffn=16,vocab=12,seq=8", 50),
    "mixtral": ("mixtral_8x7b:layers=2,hidden=16,heads=4,kv_heads=2,ffn=16,vocab=12,seq=8,experts=4,active_experts=2",
                50),
}


class Answer:
    """The answer of one command: its exit code and output."""

    def __init__(self, words, code, out, err):
        self.words = [str(word) for word in words]
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        """The error in the JSON output, or None."""
        try:
            document = json.loads(self.out)
        except ValueError:
            return None
        return document.get("error") if isinstance(document, dict) else None

    def __str__(self):
        return f"tandem {' '.join(self.words)}\n  exit {self.code}\n  {self.out[-600:]}\n  {self.err[-600:]}"


def run_tandem(program, *words, limit=600, environment=None):
    """Runs a command and returns its answer. Raises TimeoutExpired after `limit` seconds."""
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, timeout=limit,
                          env=environment or ENVIRONMENT, check=False)
    return Answer(words, done.returncode, done.stdout, done.stderr)


def find_worst_difference(losses, reference):
    """Returns the largest relative difference, or infinity if the numbers of losses differ."""
    if len(losses) != len(reference) or not losses:
        return float("inf")
    return max(abs(a - b) / max(abs(b), 1e-300) for a, b in zip(losses, reference))


def print_verdict(wrong, summary):
    """Prints the failures `wrong`, then `summary`, and returns the exit code."""
    for line in wrong:
        print(f"wrong: {line}")
    print(f"{summary}, {len(wrong)} wrong")
    return 1 if wrong else 0
