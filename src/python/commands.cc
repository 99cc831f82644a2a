// Runs a command of the command line inside Python.
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "python/bindings.h"
#include "python/call.h"

namespace tandem::python {

namespace {

namespace py = pybind11;

int run_command(std::vector<std::string> words) {
  CLI::App app("", "tandem");
  app.require_subcommand(1);
  int exit_code = cli::ExitCode::kDone;
  cli::add_commands(app, exit_code);
  const std::string name = words.empty() ? "" : words[0];
  std::ranges::reverse(words);  // CLI11 expects the words in reverse
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw UserError("flag", name, error.what());
  }
  return exit_code;
}

std::pair<int, std::string> run(std::vector<std::string> words,
                                const std::optional<py::function>& progress) {
  int exit_code = cli::ExitCode::kDone;
  auto printed = run_call([&] { exit_code = run_command(std::move(words)); }, progress);
  return {exit_code, std::move(printed)};
}

}  // namespace

void bind_commands(py::module_& module) {
  module.def("run", run, py::arg("words"), py::arg("progress") = py::none(),
             "Runs a command. Returns its exit code and its output, which is empty or JSON.");
}

}  // namespace tandem::python
