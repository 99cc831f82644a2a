#include "cli/vary.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/text.h"

namespace tandem::cli {

namespace {

// The job's own flags, as the command has them, so that a value means and may be the same in both.
struct FlagsOf {
  CLI::App app;

  explicit FlagsOf(Job& job) {
    job.add_flags(app);
    job.add_memory_flag(app);
    job.task.add_flags(app);
    for (auto* option : app.get_options()) option->required(false);
    app.remove_option(app.get_option("--stale-weights"));  // on or off, no value
    app.remove_option(app.get_option("--help"));
  }

  CLI::Option* find(const std::string& key) { return app.get_option_no_throw("--" + key); }

  void set(const std::string& key, const std::string& value) {
    try {
      app.parse(std::vector<std::string>{fmt::format("--{}={}", key, value)});
    } catch (const CLI::ParseError& error) {
      throw UserError("flag", "--vary", error.what());
    }
  }
};

// "mlp" and "mlp:layers=4" with a hyperparameter, in place of one that is there.
std::string model_with(const std::string& model, const std::string& key, const std::string& value) {
  const auto colon = std::filesystem::is_regular_file(model) ? std::string::npos : model.find(':');
  std::vector<std::string> overrides;
  if (colon != std::string::npos) {
    for (const auto part : split(std::string_view(model).substr(colon + 1), ',')) {
      if (trim(part.substr(0, part.find('='))) != key) overrides.emplace_back(part);
    }
  }
  overrides.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{}:{}", model.substr(0, colon), join(overrides, ","));
}

}  // namespace

bool is_hyperparameter(const std::string& key) {
  Job job;
  return key != "scale" && !machine::is_field_path(key) && FlagsOf(job).find(key) == nullptr;
}

void vary(Job& job, const std::string& key, const std::string& value) {
  if (key == "scale") {
    job.scale = machine::parse_scale(value);
  } else if (machine::is_field_path(key)) {
    job.machine_fields.push_back({key, value});
  } else if (FlagsOf flags(job); flags.find(key) != nullptr) {
    flags.set(key, value);
  } else {
    job.model_text = model_with(job.model_text, key, value);
  }
}

}  // namespace tandem::cli
