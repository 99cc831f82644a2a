// Names equivalence classes of devices and their streams for timelines.
#pragma once

#include <string>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"
#include "predict/simulate.h"

namespace tandem::report {

// Returns the digits that distinguish classes: those of the program's work and of machine groups.
machine::DigitMask find_class_digits(const lower::Program& program,
                                     const machine::Machine& machine);

// Returns the device that represents each class.
std::vector<std::int64_t> list_class_devices(const lower::Program& program,
                                             const machine::Machine& machine);

// Returns the devices in the class of `device`: "device 3", "devices 0, 1, 2, 3, ... (8
// equivalent)".
std::string class_text(const lower::Program& program, const machine::Machine& machine,
                       std::int64_t device);

// Returns the name of a stream: "compute", "node: sends".
std::string stream_text(const machine::Machine& machine, std::uint32_t stream);

// Returns for each class whether a timeline of at most `most_spans` spans shows it. The busiest
// class is always shown, the others in order while there is room.
std::vector<bool> choose_shown_classes(const predict::Simulation& simulation, std::size_t classes,
                                       std::size_t most_spans);

}  // namespace tandem::report
