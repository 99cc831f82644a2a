// Published measurements to hold predictions against, as JSON:
//
//   {"records":[{"id","group","source","kind","model":{..},"system":{..},"parallel":{..},
//                "batch":{..},"options":{..},"measured":{..}}]}
//
// docs/validation-format.md lists the fields. What a record does not say is absent: null, "?" and
// missing are one. A value of the wrong kind makes its record unreadable, which is a reason to skip
// it and no error, and a field that nothing looks at is noted; a file without such a list, or with
// a record that has no name, is an error.
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
  std::optional<double> billions;  // of parameters, as published
};

struct SystemFacts {
  std::string gpu;
  Count gpus_per_node, n_gpus;
  std::optional<double> intra;  // GB/s, one direction, each GPU
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
  std::string attention;  // its kernel, in the source's words
};

// A collective of this size took so long.
struct CurvePoint {
  Bytes size;
  Seconds time;
};

struct Metric {
  std::string name;
  // Text and lists that are no curve say nothing.
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
  // Why nothing is made of it: the first field that could not be read, an id that stood before;
  // else empty.
  std::string unreadable;
  std::vector<std::string> unread;  // fields that are not looked at, "options.offload"
};

// `source` is how messages call the text. Throws UserError that names the record and the field.
std::vector<Record> parse_records(std::string_view text, const std::string& source);

}  // namespace tandem::validate
