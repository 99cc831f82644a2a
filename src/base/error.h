// UserError: an error in the user's input. It says where it is, what is wrong, and what to try. The
// command line turns it into exit code 1, and into {"error":{...}} under --json.
#pragma once

#include <stdexcept>
#include <string>

namespace tandem {

struct UserError : std::runtime_error {
  std::string kind;     // "graph", "machine", "model", "plan", "flag", ...
  std::string where;    // "linear %5", "machines/x.machine:12", "--batch"
  std::string message;  // description of the error, with both values
  std::string hint;     // suggested correction; may be empty

  UserError(std::string kind, std::string where, std::string message, std::string hint = "");
};

}  // namespace tandem
