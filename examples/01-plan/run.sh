#!/usr/bin/env bash
# Plans a built-in network, asks why the plan is what it is, and checks that it computes the same.
set -euo pipefail
tandem=${TANDEM:-tandem}

"$tandem" plan bert_large --machine dgx_a100:1 --dtype bf16 -o plan.json
"$tandem" explain plan.json
"$tandem" explain plan.json l0.ffn_gelu
"$tandem" check plan.json
