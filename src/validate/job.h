// What a record says was run, as a job of ours: a network, a machine, a strategy. Where a record
// leaves something open that its software chooses, we choose what the software would
// (docs/validation-format.md lists these rules); where a needed number is unknown, it is skipped.
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

struct Job {
  std::string model;  // "gpt2:layers=24,hidden=2304,..."
  std::string size;   // "gpt 24 x 2304": networks alike but for context and kernels
  machine::Machine machine;
  std::string software;  // "megatron-deepspeed"; empty where the source is of none we know
  std::string stack;  // the same, but for sections that differ in one kernel: those are one stack
  std::int64_t batch = 1;
  DType dtype = DType::kFp16;
  plan::Precision precision = {};
  // The settings that may have been run: several where the size of a micro-batch is open, the
  // largest first; the first that fits is meant.
  std::vector<strategies::Setting> settings;
};

std::variant<Job, Skipped> job_of(const Record& record);

// What a record says that both jobs and conversions need.
struct Sizes {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocab, seq;
  bool gated = false;  // a feed-forward block has three matrices
  bool tied = false;   // the head is the embedding's table
};
std::variant<Sizes, Skipped> decoder_sizes(const ModelFacts& model);
// Of one layer's matrices, and of the product with the vocabulary.
struct Parameters {
  double layer, head;
};
Parameters parameters(const Sizes& sizes);
std::variant<std::int64_t, Skipped> global_batch(const Record& record);
// Does the whole forward pass run again?
bool recomputes_all(const Record& record);
bool is_decoder(const ModelFacts& model);

}  // namespace tandem::validate
