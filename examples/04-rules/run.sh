#!/usr/bin/env bash
# Rules: three of our own are judged, and the shipped ones derive Megatron's layers from plain ones.
set -euo pipefail
tandem=${TANDEM:-tandem}
here=$(dirname "$(readlink -f "$0")")

"$tandem" rules verify "$here/own.rules"
"$tandem" rules show linear-of-sum --file "$here/own.rules"
"$tandem" rules derive "$here/mlp.graph" "$here/mlp_megatron.graph"
"$tandem" rules derive "$here/attention.graph" "$here/attention_megatron.graph"
