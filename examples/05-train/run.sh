#!/usr/bin/env bash
# Trains with two processes, stops, and goes on with one, under another plan. Needs libtorch and MPI.
set -euo pipefail
tandem=${TANDEM:-tandem}
model=mlp:layers=2,hidden=256,inputs=256,outputs=256

"$tandem" train "$model" --devices 2 --batch 64 --steps 10 --checkpoint kept
"$tandem" train "$model" --devices 1 --batch 64 --steps 15 --checkpoint kept --resume
