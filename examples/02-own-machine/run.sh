#!/usr/bin/env bash
# Plans for a machine that is described in a file, and asks what a faster network would give.
set -euo pipefail
tandem=${TANDEM:-tandem}
here=$(dirname "$(readlink -f "$0")")

"$tandem" machines "$here/lab.machine:4"
"$tandem" plan gpt2 --machine "$here/lab.machine:4" --dtype bf16 -o plan.json
"$tandem" explore gpt2 --machine "$here/lab.machine:4" --dtype bf16 --vary level.box.bandwidth=3.125GB/s,12.5GB/s --top 3
