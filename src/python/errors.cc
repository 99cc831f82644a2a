// Translates UserError to tandem.Error in Python, which has the same parts.
#include <exception>

#include "base/error.h"
#include "python/bindings.h"

namespace tandem::python {

namespace py = pybind11;

void bind_errors(py::module_& /*module*/) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const UserError& error) {
      const auto type = py::module_::import("tandem._errors").attr("Error");
      const auto raised = type(error.kind, error.where, error.message, error.hint);
      PyErr_SetObject(type.ptr(), raised.ptr());
    }
  });
}

}  // namespace tandem::python
