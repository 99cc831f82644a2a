#include "validate/curve.h"

#include <fmt/format.h>

#include <array>

#include "predict/collectives.h"

namespace tandem::validate {

namespace {

using machine::Step;

// Words in a group's name.
constexpr std::array<std::pair<std::string_view, Step>, 8> kWords = {{
    {"allreduce", Step::kAllReduce},
    {"all_reduce", Step::kAllReduce},
    {"allgather", Step::kAllGather},
    {"all_gather", Step::kAllGather},
    {"reducescatter", Step::kReduceScatter},
    {"reduce_scatter", Step::kReduceScatter},
    {"alltoall", Step::kAllToAll},
    {"all_to_all", Step::kAllToAll},
}};

// Returns the name of the software profile of the program that measured the curve.
std::string find_software_profile(const Record& record) {
  constexpr std::string_view kNcclTests = "nccl-tests";
  return record.source.find(kNcclTests) == std::string::npos ? "" : std::string(kNcclTests);
}

std::optional<Step> find_collective(const Record& record) {
  for (const auto& [word, step] : kWords) {
    if (record.group.find(word) != std::string::npos) return step;
  }
  return std::nullopt;
}

}  // namespace

std::variant<std::vector<Seconds>, Skipped> predict_curve_times(
    const Record& record, const std::vector<CurvePoint>& points) {
  if (record.kind != "collective") return Skipped{"this curve is not predicted"};
  const auto step = find_collective(record);
  if (!step) return skip_unstated("the collective");
  const auto machine = build_machine(record.system, find_software_profile(record));
  if (const auto* skipped = std::get_if<Skipped>(&machine)) return *skipped;
  const auto& m = std::get<machine::Machine>(machine);
  const machine::Digits digits(m);
  std::vector<Seconds> out;
  out.reserve(points.size());
  for (const auto& point : points) {
    out.push_back(predict::collective_time(m, digits, *step, digits.all(), point.size));
  }
  return out;
}

}  // namespace tandem::validate
