// The module tandem._core: commands as one function, graphs as values, and errors. The public
// Python API (python/tandem/) is built on it; docs/reference/python.md documents that API.
#pragma once

#include <pybind11/pybind11.h>

namespace tandem::python {

void bind_errors(pybind11::module_& module);
void bind_commands(pybind11::module_& module);
void bind_graphs(pybind11::module_& module);
void bind_builder(pybind11::module_& module);

}  // namespace tandem::python
