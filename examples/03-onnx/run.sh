#!/usr/bin/env bash
# Reads a network from an ONNX file, shows it, and plans it.
set -euo pipefail
tandem=${TANDEM:-tandem}
here=$(dirname "$(readlink -f "$0")")

"$tandem" show "$here/classifier.onnx" --batch 64
"$tandem" plan "$here/classifier.onnx" --machine local:2 --batch 64 -o plan.json
"$tandem" show plan.json
