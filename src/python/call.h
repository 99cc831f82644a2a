// Runs long work in a thread of its own. The calling Python thread waits without the GIL, so other
// threads continue and Ctrl-C is handled; the work notices it at its next stop point (base/stop.h).
// Calls run one at a time.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <optional>
#include <string>

namespace tandem::python {

// Runs `work` and returns what it printed, if it is a command. Rethrows the exceptions of `work`.
// `progress` is called with lines.
std::string run_call(std::function<void()> work,
                     const std::optional<pybind11::function>& progress = std::nullopt);

}  // namespace tandem::python
