// Converts a record to a job: a network, a machine and a strategy. Settings that a record omits get
// the defaults of its software (docs/reference/validation-format.md lists these rules). If a
// required number is unknown, the record is skipped.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "machine/machine.h"
#include "strategies/setting.h"
#include "tensor/dtype.h"
#include "validate/record.h"
#include "validate/system.h"

namespace tandem::validate {

struct ValidationJob {
  std::string model;  // "gpt2:layers=24,hidden=2304,..."
  std::string size;   // networks that differ only in context and kernels share it: "gpt 24 x 2304"
  machine::Machine machine;
  std::string software;  // "megatron-deepspeed"; empty if the source names no known software
  std::string stack;     // software of the stack (see validate/fit.h): profiles that differ in one
                         // kernel share it
  std::int64_t batch = 1;
  DType dtype = DType::kFp16;
  plan::Precision precision = {};
  // Candidate settings: several if the micro-batch size is open, the largest first. The first that
  // fits is used.
  std::vector<strategies::Setting> settings;
};

std::variant<ValidationJob, Skipped> make_job(const Record& record);

// Sizes of a decoder that jobs and conversions of metrics both need.
struct Sizes {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocab, seq;
  bool gated = false;  // whether a feed-forward block has three matrices
  bool tied = false;   // whether the LM head shares the embedding table
};
std::variant<Sizes, Skipped> find_decoder_sizes(const ModelFacts& model);
// Numbers of parameters: one layer's matrices, and the matmul with the vocabulary.
struct Parameters {
  double layer, head;
};
Parameters count_decoder_parameters(const Sizes& sizes);
std::variant<std::int64_t, Skipped> find_global_batch(const Record& record);
// Returns whether the whole forward pass is recomputed.
bool recomputes_all(const Record& record);
bool is_decoder(const ModelFacts& model);

}  // namespace tandem::validate
