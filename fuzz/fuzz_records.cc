// Fuzzing of published measurements, and of the jobs and conversions computed from them.
#include "target.h"
#include "validate/job.h"
#include "validate/metric.h"

void tandem::fuzz::parse(std::string_view input) {
  using namespace validate;
  for (const auto& record : parse_records(input, "fuzz")) {
    const auto job = make_job(record);
    if (const auto* j = std::get_if<ValidationJob>(&job); j != nullptr && j->settings.empty())
      std::abort();
    (void)count_hardware_flops(record);
    for (const auto& metric : record.measured) {
      if (find_metric_kind(metric.name) != MetricKind::kTime) continue;
      (void)from_iteration(record, metric.name, Seconds{1});
      (void)to_iteration(record, metric.name, 1);
    }
  }
}
