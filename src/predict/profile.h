// Results of `tandem profile`: times of operators and collectives as the runtime executes them. The
// worker measures and prints them, and the planner fits a machine file to them (predict/fit.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "machine/reshard.h"
#include "predict/task_work.h"

namespace tandem::predict {

struct MeasuredOperator {
  std::string name;  // "linear" or "add"
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> shape;  // linear: rows, outputs, inputs; add: elements
  std::int64_t devices = 1;         // devices that ran it at the same time; the slowest counts
  Seconds time;

  [[nodiscard]] Work work() const;
};

struct MeasuredCollective {
  machine::Step kind = machine::Step::kAllReduce;
  Bytes bytes;  // bytes as in collective_time
  Seconds time;
};

struct Profile {
  std::int64_t devices = 1;  // devices in each collective
  std::int64_t threads = 1;  // threads of each process
  Bytes resident;            // memory of a process before measurements
  std::vector<MeasuredOperator> operators;
  std::vector<MeasuredCollective> collectives;
};

// Returns {"devices", "threads", "resident_bytes", "operators": [{"operator", "dtype", "shape",
// "devices", "seconds", "flops_per_s", "bytes_per_s"}], "collectives": [{"collective", "bytes",
// "devices", "seconds"}]}.
nlohmann::ordered_json to_json(const Profile& profile);

// Parses the text of to_json. Throws nlohmann's exceptions or std::invalid_argument if the text is
// not such a document.
Profile parse_profile(const std::string& json);

}  // namespace tandem::predict
