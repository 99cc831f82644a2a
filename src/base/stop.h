// Cancellation of long computations from outside, as by Ctrl-C in a program that embeds the
// commands. A computation passes stop points, which throw after a stop was requested. Its
// intermediate results are then lost; a search that must retain them polls by itself and returns.
#pragma once

#include <functional>

namespace tandem {

// Thrown at a stop point. It is not a std::exception, so code that reports errors does not catch
// it.
struct Stopped {};

// While an object exists, stop points call `wanted`, from any thread. At most one may exist at a
// time.
class StopWhen {
 public:
  explicit StopWhen(std::function<bool()> wanted);
  ~StopWhen();
  StopWhen(const StopWhen&) = delete;
  StopWhen& operator=(const StopWhen&) = delete;

 private:
  std::function<bool()> wanted_;
};

// Throws Stopped if a stop was requested. It is meant for loops whose iterations take a microsecond
// or more; it costs next to nothing if no StopWhen exists.
void throw_if_stopped();

}  // namespace tandem
