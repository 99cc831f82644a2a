#include "base/check.h"
#include "base/text.h"
#include "python/bindings.h"

// NOLINTNEXTLINE: pybind11's macro
PYBIND11_MODULE(_core, module) {
  module.doc() = "Implementation of tandem. Use `tandem` instead.";
  module.attr("version") = TANDEM_VERSION;
  static const tandem::FailedChecksThrow as_long_as_the_process;
  tandem::python::bind_errors(module);
  tandem::python::bind_commands(module);
  tandem::python::bind_graphs(module);
  tandem::python::bind_builder(module);
  module.def("si_text", tandem::format_si, "Formats a number as tables do: 37.4k.");
  module.def("seconds_text", tandem::format_seconds, "Formats a time as tables do: 39.5 ms.");
  module.def("bytes_text", tandem::format_bytes,
             "Formats a number of bytes as tables do: 3.47 GB.");
}
