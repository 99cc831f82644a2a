// Returns error messages about the text of a machine file, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "machine/machine.h"

namespace tandem::machine {

inline std::string parse_error(const std::string& text, std::int64_t size,
                               const std::string& software = "") {
  try {
    parse_machine(text, "toy.machine", size, software);
  } catch (const UserError& e) {
    EXPECT_EQ(e.kind, "machine");
    return e.what();
  }
  return "no error";
}

}  // namespace tandem::machine
