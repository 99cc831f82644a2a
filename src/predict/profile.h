// What `tandem profile` measures: operators and collectives as the runtime executes them. The
// worker measures and prints, the planner reads and makes a machine of it (predict/fit.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "machine/reshard.h"
#include "predict/device.h"

namespace tandem::predict {

struct MeasuredOperator {
  std::string name;  // "linear", "add"
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> shape;  // linear: rows, outputs, inputs; add: elements
  std::int64_t devices = 1;         // that ran it at the same time; the slowest counts
  Seconds time;

  [[nodiscard]] Work work() const;
};

struct MeasuredCollective {
  machine::Step kind = machine::Step::kAllReduce;
  Bytes bytes;  // as collective_time counts them
  Seconds time;
};

struct Profile {
  std::int64_t devices = 1;  // of all collectives
  std::int64_t threads = 1;  // of each process
  Bytes resident;            // memory of a process before it measures
  std::vector<MeasuredOperator> operators;
  std::vector<MeasuredCollective> collectives;
};

// {"devices", "threads", "resident_bytes", "operators": [{"operator", "dtype", "shape", "devices",
// "seconds", "flops_per_s", "bytes_per_s"}], "collectives": [{"collective", "bytes", "devices",
// "seconds"}]}
nlohmann::ordered_json to_json(const Profile& profile);

// Throws nlohmann's exceptions and std::invalid_argument where the text is no such document.
Profile parse_profile(const std::string& json);

}  // namespace tandem::predict
