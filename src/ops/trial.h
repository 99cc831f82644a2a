// Operators are asked for their index text with operands by the thousand, of which most do not fit.
// Who only wants to know whether they do says so by a trial: while one lives in a thread, sizes
// that do not fit are answered by an empty text, without a reason and without an exception.
#pragma once

#include <string>
#include <utility>

#include "ops/index_text.h"

namespace tandem::ops {

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

// What an operator's file returns where sizes do not fit: an empty text, or false.
struct Misfit {
  operator std::string() const { return {}; }  // NOLINT(google-explicit-constructor)
  operator bool() const { return false; }      // NOLINT(google-explicit-constructor)
};

// Throws what why() says, as reject does, but in a trial.
template <class Why>
[[nodiscard]] Misfit misfit(Why&& why, std::string hint = "") {
  if (!Trial::is_on()) reject(std::forward<Why>(why)(), std::move(hint));
  return {};
}

}  // namespace tandem::ops
