// Fuzzing of Hugging Face's config.json, and of the network it describes.
#include "import/config.h"
#include "target.h"

void tandem::fuzz::parse(std::string_view input) {
  if (!import::is_config(input)) return;
  const auto model = models::make_model(import::read_config(input, "fuzz"), "fuzz", "layers=2");
  if (model.build(2, DType::kFp32).size() == 0) std::abort();
}
