// General contraction of two tensors: every factor that the output lacks is summed over.
// Attention is written with it, so that heads are a factor of their own.
#include <set>

#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// "b s i, h d i -> b h s d": the factors of the inputs that the output lacks, here "i".
std::string contracted(const std::string& index) {
  const auto arrow = index.find("->");
  std::set<std::string_view> kept;
  for (auto f : words(std::string_view(index).substr(arrow + 2))) kept.insert(f);
  std::set<std::string_view> out;
  for (auto side : split(std::string_view(index).substr(0, arrow), ',')) {
    for (auto f : words(side)) {
      if (!kept.contains(f)) out.insert(f);
    }
  }
  return fmt::format("{}", fmt::join(out, " "));
}

// What a user writes is checked here, once: resolve_index takes correct text for granted.
void check_index(const std::string& index) {
  const auto bad = [&](const std::string& why) {
    throw UserError("graph", "", fmt::format("contract: index \"{}\": {}", index, why),
                    "write it like index=\"b s i, h d i -> b h s d\"");
  };
  const auto arrow = index.find("->");
  if (arrow == std::string::npos) bad("has no '->'");
  const auto inputs = split(std::string_view(index).substr(0, arrow), ',');
  if (inputs.size() != 2) bad("needs two inputs");
  std::set<std::string_view> known;
  const auto read = [&](std::string_view side, bool output) {
    std::set<std::string_view> here;
    for (auto f : words(side)) {
      if (f.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") != std::string_view::npos) {
        bad(fmt::format("'{}' is not a factor's name", f));
      }
      if (!here.insert(f).second) bad(fmt::format("'{}' stands twice in one tensor", f));
      if (output && !known.contains(f)) bad(fmt::format("'{}' is in no input", f));
    }
    known.merge(here);
  };
  for (auto side : inputs) read(side, false);
  read(std::string_view(index).substr(arrow + 2), true);
}

}  // namespace

const OpSpec kContract = define_op<Contract>({
    .name = "contract",
    .doc = "out = scale * the sum over every factor of `index` that the output lacks of lhs * rhs",
    .index = "(given by the attribute `index`)",
    .kernel = "contract",
    .onnx = {"Einsum"},
    .index_text =
        [](const Contract& a, std::span<const Shape>) {
          check_index(a.index);
          return a.index;
        },
    .meaning =
        [](const Contract& a, std::span<const Shape>) {
          const auto product = term::input(0) * term::input(1);
          const auto over = contracted(a.index);
          const auto total = over.empty() ? product : term::sum(over, product);
          return a.scale == 1 ? total : term::constant(a.scale) * total;
        },
});

}  // namespace tandem::ops
