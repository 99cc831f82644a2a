"""For the walks through the runtime: `tandem` as a user calls it."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Predictions do not matter here, and plans should not depend on what was measured of this computer.
ENVIRONMENT = dict(os.environ, TANDEM_NO_CACHE="1")

# Every network, small, and how many steps count in float64. Normalised over few elements small
# convolutional networks are chaotic: from 1e-16 differences grow a hundredfold in every step, on one device, too
# (Inception ten thousand times: 4e-16, 1.4e-12, 1.1e-8).
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
    """Of one command."""

    def __init__(self, words, code, out, err):
        self.words = [str(word) for word in words]
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        """What `--json` says of an error; nothing where it says none."""
        try:
            said = json.loads(self.out)
        except ValueError:
            return None
        return said.get("error") if isinstance(said, dict) else None

    def __str__(self):
        return f"tandem {' '.join(self.words)}\n  exit {self.code}\n  {self.out[-600:]}\n  {self.err[-600:]}"


def tandem(program, *words, limit=600, environment=None):
    """A command that takes longer than `limit` seconds hangs, and that is an error of its own."""
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, timeout=limit,
                          env=environment or ENVIRONMENT, check=False)
    return Answer(words, done.returncode, done.stdout, done.stderr)


def worst_difference(losses, reference):
    """The largest relative one; infinite where they are not as many."""
    if len(losses) != len(reference) or not losses:
        return float("inf")
    return max(abs(a - b) / max(abs(b), 1e-300) for a, b in zip(losses, reference))



def verdict(wrong, summary):
    """Says what was wrong, then `summary`; the exit code."""
    for line in wrong:
        print(f"wrong: {line}")
    print(f"{summary}, {len(wrong)} wrong")
    return 1 if wrong else 0
