// Fuzzing of the parsers of MAD-Max's three files, one JSON list of the three, and of the model.
#include <nlohmann/json.hpp>

#include "madmax/evaluate.h"
#include "target.h"

void tandem::fuzz::parse(std::string_view input) {
  const auto files = nlohmann::json::parse(input, nullptr, false);
  if (!files.is_array() || files.size() != 3) return;
  const auto text = [&](std::size_t i) {
    return files[i].dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const auto model = madmax::parse_model(text(0), "model");
  const auto system = madmax::parse_system(text(1), "system");
  const auto task = madmax::parse_task(text(2), "task", model, system);
  const auto result = madmax::evaluate(model, system, task);
  if (result.iteration < result.compute() * (1 - 1e-6)) std::abort();
}
