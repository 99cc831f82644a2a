// Classes of devices and their streams, as timelines name them.
#pragma once

#include <string>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"
#include "predict/simulate.h"

namespace tandem::report {

// The digits by which classes differ: by what devices do, and by their group.
machine::DigitMask digits_of_classes(const lower::Program& program,
                                     const machine::Machine& machine);

// By class, the device that stands for it.
std::vector<std::int64_t> devices_of_classes(const lower::Program& program,
                                             const machine::Machine& machine);

// "device 3", "devices 0, 1, 2, 3, ... (8 alike)": those of the class of `device`.
std::string class_text(const lower::Program& program, const machine::Machine& machine,
                       std::int64_t device);

// "compute", "node: sends".
std::string stream_text(const machine::Machine& machine, std::uint32_t stream);

// Which classes a timeline shows that has room for so many spans: the busiest always, then in order
// those for which there is room.
std::vector<bool> shown_classes(const predict::Simulation& simulation, std::size_t classes,
                                std::size_t most_spans);

}  // namespace tandem::report
