// Returns error messages, for tests.
#pragma once

#include <string>

#include "base/error.h"

namespace tandem {

template <class Attempt>
std::string get_error(const Attempt& attempt) {
  try {
    attempt();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace tandem
