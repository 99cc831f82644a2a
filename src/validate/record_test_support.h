// Records for tests: a GPT of 24 layers on 8 A100, with changes.
#pragma once

#include "validate/record.h"

namespace tandem::validate {

inline Record small_gpt() {
  Record r;
  r.id = "a";
  r.group = "g";
  r.source = "Megatron-LM";
  r.kind = "train_step";
  r.model = {.type = "gpt",
             .name = "small",
             .layers = 4,
             .hidden = 1024,
             .heads = 16,
             .kv_heads = {},
             .ffn = {},
             .vocab = 51200,
             .seq_len = 1024,
             .image = {},
             .billions = {}};
  r.system = {.gpu = "A100-80GB-SXM", .gpus_per_node = 8, .n_gpus = 8, .intra = 300, .inter = 25};
  r.parallel.tp = 2;
  r.parallel.pp = 2;
  r.batch.global = 32;
  r.batch.micro_size = 4;
  r.options = {.dtype = "fp16", .recompute = "full", .attention = ""};
  return r;
}

}  // namespace tandem::validate
