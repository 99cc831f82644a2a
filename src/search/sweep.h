// Sweeps: keys that take several values. Every combination is a case.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::search {

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

// Parses "seq=2048,4096". Semicolons separate values that contain commas:
// "scale=inter=10;compute=10,inter=10". "a,b;" is one value. Throws UserError if `text` is not
// KEY=VALUE,....
Axis parse_axis(std::string_view text);

// The key and value of every axis in one case, in the order of the axes.
using Values = std::vector<std::pair<std::string, std::string>>;

// Returns all combinations; the last axis varies fastest. Returns one empty case without axes.
// Throws UserError if a key is given twice, or for more than 10,000 cases.
//   seq=1,2 and batch=8,9 -> seq=1, batch=8; seq=1, batch=9; seq=2, batch=8; seq=2, batch=9
std::vector<Values> list_combinations(const std::vector<Axis>& axes);

// Returns "seq=2048, batch=64"; "" without values.
std::string to_text(const Values& values);

}  // namespace tandem::search
