// A machine with some of its rates multiplied: what if the network were ten times as fast?
#pragma once

#include <string>
#include <string_view>

#include "machine/machine.h"

namespace tandem::machine {

struct Scale {
  double compute = 1;    // peak, of every element type
  double capacity = 1;   // of memory; the reserve stays
  double bandwidth = 1;  // of memory
  double intra = 1;      // bandwidth of links inside units of the outermost level
  double inter = 1;      // of links between them; a machine of one level has none
  double latency = 1;    // of all links: 2 is twice as long
  double launch = 1;     // times of a device and its host: to launch, dispatch, wait

  bool operator==(const Scale&) const = default;
};

// "compute=10,inter=10"; `memory` is capacity and bandwidth. Throws UserError naming what is
// unknown, or no factor above 0.
Scale parse_scale(std::string_view text);
// What is not 1: parses back. "none" where everything is.
std::string to_text(const Scale& scale);

// Multiplied by 1 a number stays as it is. Throws UserError where the reserve takes all that is
// left of the memory.
Machine scaled(Machine machine, const Scale& scale);

}  // namespace tandem::machine
