// Ctrl-C asks a long command to stop early and print what there is; a second one ends it at once.
// A program that has the commands inside sees to Ctrl-C itself (cli/host.h).
#pragma once

namespace tandem::cli {

// While one exists. At most one at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool requested();
};

}  // namespace tandem::cli
