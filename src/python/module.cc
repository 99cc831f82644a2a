#include "python/bindings.h"

// NOLINTNEXTLINE: pybind11's macro
PYBIND11_MODULE(_core, module) {
  module.doc() = "What tandem is made of. Use `tandem` instead.";
  module.attr("version") = TANDEM_VERSION;
  tandem::python::bind_errors(module);
  tandem::python::bind_commands(module);
  tandem::python::bind_graphs(module);
  tandem::python::bind_builder(module);
}
