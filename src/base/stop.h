// How a long computation is ended from outside, as by Ctrl-C in a program that has the commands
// inside: it passes stop points, which throw once somebody wants it to end. What it has so far is
// lost; a search that is to keep it asks by itself and returns.
#pragma once

#include <functional>

namespace tandem {

// Not an std::exception: nobody who reports errors takes it for one.
struct Stopped {};

// While one exists, stop points ask `wanted`, from any thread. At most one at a time.
class StopWhen {
 public:
  explicit StopWhen(std::function<bool()> wanted);
  ~StopWhen();
  StopWhen(const StopWhen&) = delete;
  StopWhen& operator=(const StopWhen&) = delete;

 private:
  std::function<bool()> wanted_;
};

// Throws Stopped if somebody wants to stop. For loops whose rounds take a microsecond or more: next
// to nothing where there is nobody to ask.
void stop_point();

}  // namespace tandem
