// Published measurements to compare predictions with, as JSON:
//
//   {"records":[{"id","group","source","kind","model":{..},"system":{..},"parallel":{..},
//                "batch":{..},"options":{..},"measured":{..}}]}
//
// docs/reference/validation-format.md lists the fields. Null, "?" and a missing field all mean that
// the record does not state a value. A value of the wrong kind makes its record unreadable: it is
// skipped, without an error. An unused field is noted. A file without such a list, or with a record
// without a name, is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"

namespace tandem::validate {

using Count = std::optional<std::int64_t>;

struct ModelFacts {
  std::string type;  // "gpt", "llama", ...
  std::string name;
  Count layers, hidden, heads, kv_heads, ffn, vocab, seq_len, image;
  std::optional<double> billions;  // billions of parameters, as published
};

struct SystemFacts {
  std::string gpu;
  Count gpus_per_node, n_gpus;
  std::optional<double> intra;  // GB/s per GPU, one direction
  std::optional<double> inter;
};

struct ParallelFacts {
  Count tp, pp, dp, cp, ep, vpp, zero;
  bool sp = false;
  bool fsdp = false;
};

struct BatchFacts {
  Count global;  // sequences or samples
  Count local;   // of a data-parallel replica
  Count micro_size, micro_batches;
  std::optional<double> tokens;  // of the global batch
};

struct OptionFacts {
  std::string dtype;
  std::string recompute;
  std::string attention;  // its kernel, as the source names it
};

// Measured time of a collective of one size.
struct CurvePoint {
  Bytes size;
  Seconds time;
};

struct Metric {
  std::string name;
  // Text, and lists that are no curve, become monostate.
  std::variant<std::monostate, double, bool, std::vector<CurvePoint>> value;
};

struct Record {
  std::string id, group, source, kind;
  ModelFacts model;
  SystemFacts system;
  ParallelFacts parallel;
  BatchFacts batch;
  OptionFacts options;
  std::vector<Metric> measured;
  // Reason to skip the record: the first unreadable field, or a duplicate id; else empty.
  std::string unreadable;
  std::vector<std::string> unread;  // unused fields: "options.offload"
};

// Parses a file; `source` is its name in messages. Throws UserError that names the record and the
// field.
std::vector<Record> parse_records(std::string_view text, const std::string& source);

}  // namespace tandem::validate
