// Runs what may take long in a thread of its own. The thread of Python that called waits for it
// without the lock of the interpreter: others go on, and Ctrl-C is seen to, of which the work hears
// at its next stop point (base/stop.h). Calls take turns.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <optional>
#include <string>

namespace tandem::python {

// Returns what a command printed, if it is one; throws what the work throws. `progress` gets lines.
std::string run_call(std::function<void()> work,
                     const std::optional<pybind11::function>& progress = std::nullopt);

}  // namespace tandem::python
