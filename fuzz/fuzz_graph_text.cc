// Fuzzing of the parser of the text of a graph: whatever the bytes are, it returns or throws a
// UserError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "graph/text.h"

namespace {

void parse(std::string_view input) {
  const auto graph = tandem::graph::parse_graph(input, "fuzz");
  // What was read is printed and read again as the same graph.
  if (graph.size() > 1000) return;
  const auto again = tandem::graph::parse_graph(tandem::graph::to_text(graph), "fuzz");
  if (again.identity_hash() != graph.identity_hash()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    parse(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const tandem::UserError&) {
    // Said to the user.
  }
  return 0;
}
