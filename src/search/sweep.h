// Sweeps: keys that take several values, every combination a case of its own.
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

// "seq=2048,4096"; "scale=inter=10;compute=10,inter=10" where values have commas themselves ("a,b;"
// is one value). Throws UserError where that is not KEY=VALUE,....
Axis parse_axis(std::string_view text);

// What every axis says in one case, in the order of the axes.
using Values = std::vector<std::pair<std::string, std::string>>;

// The last axis runs fastest; one empty case without axes. Throws UserError on a key that stands
// twice, and on more than 10,000 cases.
std::vector<Values> combinations(const std::vector<Axis>& axes);

// "seq=2048, batch=64"; "" without values.
std::string to_text(const Values& values);

}  // namespace tandem::search
