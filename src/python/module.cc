#include "base/check.h"
#include "python/bindings.h"

// NOLINTNEXTLINE: pybind11's macro
PYBIND11_MODULE(_core, module) {
  module.doc() = "What tandem is made of. Use `tandem` instead.";
  module.attr("version") = TANDEM_VERSION;
  static const tandem::FailedChecksThrow as_long_as_the_process;
  tandem::python::bind_errors(module);
  tandem::python::bind_commands(module);
  tandem::python::bind_graphs(module);
  tandem::python::bind_builder(module);
}
