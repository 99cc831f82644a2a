// A mode in which index-text functions report misfits without exceptions. The planner asks
// operators for their index text with thousands of operands, most of which do not fit. While a
// Trial object lives in a thread, sizes that do not fit give an empty text, without a reason.
#pragma once

#include <string>
#include <utility>

#include "ops/index_text.h"

namespace tandem::ops {

// Enables the mode for this thread during its lifetime. Trials may be nested.
class Trial {
 public:
  Trial() : outer_(is_on_) { is_on_ = true; }
  ~Trial() { is_on_ = outer_; }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  static bool is_on() { return is_on_; }

 private:
  static thread_local bool is_on_;
  bool outer_;
};

// The value that an operator's file returns if sizes do not fit: an empty text, or false.
struct Misfit {
  operator std::string() const { return {}; }  // NOLINT(google-explicit-constructor)
  operator bool() const { return false; }      // NOLINT(google-explicit-constructor)
};

// Throws UserError with the message why(), as reject does. Within a Trial, returns Misfit instead.
template <class Why>
[[nodiscard]] Misfit report_misfit(Why&& why, std::string hint = "") {
  if (!Trial::is_on()) reject(std::forward<Why>(why)(), std::move(hint));
  return {};
}

}  // namespace tandem::ops
