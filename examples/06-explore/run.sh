#!/usr/bin/env bash
# Every strategy of a network in time and memory: a table, a file of all points, and a plot.
set -euo pipefail
tandem=${TANDEM:-tandem}

"$tandem" explore gpt2 --machine dgx_a100:2 --dtype bf16 --top 5 --csv points.csv --plot front.svg
head -3 points.csv
"$tandem" explore gpt2 --machine dgx_a100:2 --dtype bf16 --top 3 --scale none --scale inter=10
