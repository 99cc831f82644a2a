// The module tandem._core: the commands as one function, graphs as values, and errors. What people
// call is Python (python/tandem/), which is made of these. docs/python.md is its manual.
#pragma once

#include <pybind11/pybind11.h>

namespace tandem::python {

void bind_errors(pybind11::module_& module);
void bind_commands(pybind11::module_& module);
void bind_graphs(pybind11::module_& module);
void bind_builder(pybind11::module_& module);

}  // namespace tandem::python
