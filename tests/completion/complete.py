#!/usr/bin/env python3
"""Tests completion of command lines in bash, and in zsh and fish if they are installed.

tests/completion/complete.py TANDEM
"""

import os
import shutil
import subprocess
import sys

# (command line, words among its completions, a word that is not); the last word of the line is completed.
CASES = [
    ("tandem ", ["plan", "rules", "completion"], "mlp"),
    ("tandem pl", ["plan"], "report"),
    ("tandem plan bert", ["bert_large"], "plan"),
    ("tandem plan mlp --mach", ["--machine"], "--dtype"),
    ("tandem plan mlp --machine su", ["summit:"], "mlp"),
    ("tandem plan mlp --dtype ", ["bf16", "fp32"], "mlp"),
    ("tandem plan mlp --search s", ["sequential"], "mcmc"),
    ("tandem simulate mlp --strategy ", ["megatron", "best_baseline"], "mlp"),
    ("tandem rules ", ["show", "verify"], "plan"),
    ("tandem rules show fuse-linear-r", ["fuse-linear-relu"], "relu"),
    ("tandem ops conv", ["conv2d"], "relu"),
    ("tandem strategies meg", ["megatron"], "dp"),
    ("tandem completion ", ["bash", "zsh", "fish"], "plan"),
    ("tandem check pl", ["plan.json"], "plan"),
    ("tandem plan mlp -o pl", ["plan.json"], "plan"),
    ("tandem check my", ["my plan.json"], "my"),
]

BASH = """source <("$TANDEM" completion bash)
complete -p tandem | grep -q _tandem || exit 1
COMP_LINE=$LINE COMP_POINT=${#LINE}
read -ra COMP_WORDS <<<"$LINE"
[[ $LINE != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_tandem tandem
printf '%s\\n' "${COMPREPLY[@]}"
"""

# Replaces zle's commands by functions that print the completions.
ZSH = """compdef() { : }
compadd() {
  [[ $1 == -S ]] && shift 2
  shift
  for word in "$@"; do [[ $word == "$PREFIX"* ]] && print -r -- $word; done
}
_files() { print -rl -- ${~${:-${PREFIX}*}}(N) }
source <("$TANDEM" completion zsh)
words=(${(z)LINE})
[[ $LINE == *' ' ]] && words+=('')
CURRENT=$#words
PREFIX=$words[-1]
_tandem
"""

FISH = """"$TANDEM" completion fish | source
complete -C "$LINE" | string replace -r '\\t.*' ''
"""


def complete(shell, script, tandem, line):
    """Returns the completions of `line` in `shell`, or a message if the shell fails."""
    environment = dict(os.environ, TANDEM=tandem, LINE=line, HOME=os.getcwd())
    options = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}[shell]
    done = subprocess.run([shell, *options, script], env=environment, capture_output=True, text=True,
                          timeout=60)
    if done.returncode != 0 and shell == "bash" or done.stderr:
        return [f"[{shell} failed: {done.stderr.strip()}]"]
    return [word.strip() for word in done.stdout.splitlines()]


def main():
    tandem = os.path.abspath(sys.argv[1])
    directory = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"tandem-completion-{os.getpid()}")
    os.mkdir(directory)
    os.chdir(directory)
    for name in ("plan.json", "my plan.json"):
        open(name, "w").close()
    failed = 0
    try:
        for shell, script in {"bash": BASH, "zsh": ZSH, "fish": FISH}.items():
            if not shutil.which(shell):
                print(f"{shell}: skipped, not installed")
                continue
            for line, expected, excluded in CASES:
                words = complete(shell, script, tandem, line)
                if not set(expected) <= set(words) or excluded in words:
                    failed += 1
                    print(f"{shell}: '{line}' completes to {words}, expected {expected} without {excluded}")
    finally:
        shutil.rmtree(directory)
    print("failed" if failed else "ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
