#include "validate/relative_memory.h"

#include <algorithm>

#include "base/text.h"

namespace tandem::validate {

namespace {

struct Technique {
  std::string_view word;
  bool divides_sequences;
  std::string_view recompute;
};
constexpr Technique kTechniques[] = {{"seq", true, "none"},
                                     {"sel", false, "selective"},
                                     {"seqsel", true, "selective"},
                                     {"full", false, "full"}};

std::string get_first_word(const Record& record) {
  const auto all = split_words(record.source);
  return all.empty() ? std::string() : std::string(all.front());
}

bool needs_reference_run(const Record& record) {
  return !record.model.layers && std::ranges::any_of(record.measured, [](const Metric& metric) {
    return is_relative(metric.name);
  });
}

}  // namespace

bool is_relative(std::string_view metric) { return metric == "activation_pct_of_tp_baseline"; }

void complete_relative_records(std::vector<Record>& records) {
  for (auto& record : records) {
    if (!needs_reference_run(record)) continue;
    const auto word = record.id.substr(record.id.rfind('-') + 1);
    const auto* technique = std::ranges::find(kTechniques, word, &Technique::word);
    const auto other = std::ranges::find_if(records, [&](const Record& r) {
      return r.model.layers && r.model.name == record.model.name &&
             get_first_word(r) == get_first_word(record);
    });
    if (technique == std::end(kTechniques) || other == records.end()) continue;
    record.model = other->model;
    record.system = other->system;
    record.parallel = other->parallel;
    record.batch = other->batch;
    record.options = other->options;
    record.parallel.sp = technique->divides_sequences;
    record.options.recompute = technique->recompute;
  }
}

Record make_baseline(Record record) {
  record.parallel.sp = false;
  record.options.recompute = "none";
  return record;
}

}  // namespace tandem::validate
