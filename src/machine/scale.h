// Machines with some rates multiplied, for questions such as "what if the network were ten times
// faster?"
#pragma once

#include <string>
#include <string_view>

#include "machine/machine.h"

namespace tandem::machine {

struct Scale {
  double compute = 1;    // factor of the peak of every element type
  double capacity = 1;   // factor of memory capacity; the reserve is unchanged
  double bandwidth = 1;  // factor of memory bandwidth
  double intra = 1;      // factor of link bandwidth inside units of the outermost level
  double inter = 1;      // factor of link bandwidth between them; unused with one level
  double latency = 1;    // factor of all links' latency: 2 is twice as long
  double launch = 1;     // factor of device and host times: launch, dispatch, synchronization

  bool operator==(const Scale&) const = default;
};

// Parses "compute=10,inter=10"; `memory` sets capacity and bandwidth. Throws UserError for an
// unknown name or an invalid factor.
Scale parse_scale(std::string_view text);
// Returns the factors other than 1 in the form that parse_scale() reads, or "none".
std::string to_text(const Scale& scale);

// Returns the machine with its rates multiplied. A factor of 1 leaves a number bit-identical.
// Throws UserError if the reserve takes all of the scaled memory.
Machine scale_machine(Machine machine, const Scale& scale);

}  // namespace tandem::machine
