// General contraction: the product of the inputs, summed over every factor that the output lacks.
// Attention uses it so that the heads are a factor of their own. A dimension may run over several
// factors: "b (kv g) s d, b kv t d -> b kv g s t".
#include <map>
#include <set>

#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

constexpr std::size_t kMostInputs = 8;

// Returns the name of a factor in index text: "g" -> "g", "g:4" -> "g".
std::string_view get_factor_name(std::string_view written) {
  return written.substr(0, written.find(':'));
}

bool has_size(std::string_view written) { return written.find(':') != std::string_view::npos; }

// Splits a tensor's index text into the factors of each dimension: "(kv g) s" -> {{kv, g}, {s}}.
// The parentheses must match.
std::vector<std::vector<std::string_view>> split_dims(std::string_view tensor) {
  std::vector<std::vector<std::string_view>> out;
  bool inside = false;
  for (auto word : split_words(tensor)) {
    const bool opens = word.starts_with('(');
    const bool closes = word.ends_with(')');
    if (opens) word.remove_prefix(1);
    if (closes) word.remove_suffix(1);
    if (!inside) out.emplace_back();
    out.back().push_back(word);
    inside = closes ? false : inside || opens;
  }
  return out;
}

struct Sides {
  std::vector<std::string_view> inputs;
  std::string_view output;
};

Sides split_sides(std::string_view index) {
  const auto arrow = index.find("->");
  return {split(index.substr(0, arrow), ','), index.substr(arrow + 2)};
}

// Returns the factors of the inputs that the output lacks: "b s i, h d i -> b h s d" -> "i".
std::string find_contracted_factors(const std::string& index) {
  const auto sides = split_sides(index);
  std::set<std::string_view> in_result;
  for (const auto& dim : split_dims(sides.output)) {
    for (auto f : dim) in_result.insert(get_factor_name(f));
  }
  std::set<std::string_view> out;
  for (auto side : sides.inputs) {
    for (const auto& dim : split_dims(side)) {
      for (auto f : dim) {
        if (!in_result.contains(get_factor_name(f))) out.insert(get_factor_name(f));
      }
    }
  }
  return fmt::format("{}", fmt::join(out, " "));
}

// Checks a user's index text, because resolve_index requires correct text.
class Checker {
 public:
  Checker(const std::string& index, std::span<const Shape> in) : index_(index), shapes_(in) {}

  void run() {
    if (index_.find("->") == std::string::npos) fail("has no '->'");
    const auto sides = split_sides(index_);
    if (sides.inputs.empty() || sides.inputs.size() > kMostInputs) {
      fail(fmt::format("has {} inputs, but may have 1 to {}", sides.inputs.size(), kMostInputs));
    }
    for (auto side : sides.inputs) read_side(side, false);
    read_side(sides.output, true);
    find_sizes(sides);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    reject(fmt::format("contract: index \"{}\": {}", index_, why),
           "write it like index=\"b s i, h d i -> b h s d\"");
  }

  // Accepts "(a b)" with at least one factor, not nested, and with blanks outside.
  void check_parentheses(std::string_view side) const {
    bool inside = false;
    for (std::size_t i = 0; i < side.size(); ++i) {
      if (side[i] != '(' && side[i] != ')') continue;
      const bool opens = side[i] == '(';
      const char beyond =
          opens ? (i == 0 ? ' ' : side[i - 1]) : (i + 1 == side.size() ? ' ' : side[i + 1]);
      const char within = opens ? (i + 1 == side.size() ? ' ' : side[i + 1]) : side[i - 1];
      if (opens == inside || beyond != ' ' || within == ' ') {
        fail("write a dimension of several factors like (a b)");
      }
      inside = opens;
    }
    if (inside) fail("write a dimension of several factors like (a b)");
  }

  void check_factor(std::string_view written) const {
    const auto name = get_factor_name(written);
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") != std::string_view::npos ||
        name.empty() || kLetters.find(name[0]) == std::string_view::npos) {
      fail(fmt::format("'{}' is not a valid factor name", written));
    }
    if (has_size(written) && parse_size(written) < 1) {
      fail(fmt::format("'{}' does not give a size of at least 1", written));
    }
  }

  // Returns the size in "g:4", or 0 if it is not a valid size.
  static std::int64_t parse_size(std::string_view written) {
    const auto size = parse_int(written.substr(get_factor_name(written).size() + 1)).value_or(0);
    return size <= kLargestSize ? size : 0;
  }

  void read_side(std::string_view side, bool output) {
    check_parentheses(side);
    std::set<std::string_view> here;
    for (const auto& dim : split_dims(side)) {
      for (auto written : dim) {
        check_factor(written);
        const auto name = get_factor_name(written);
        if (!here.insert(name).second) fail(fmt::format("'{}' appears twice in one tensor", name));
        if (output && !known_.contains(name)) fail(fmt::format("'{}' is in no input", name));
        if (has_size(written)) sizes_.emplace(name, parse_size(written));
      }
    }
    known_.merge(here);
  }

  // Finds the sizes of all factors. A dimension determines the size of one factor once those of its
  // other factors are known. resolve_index reports sizes that do not fit.
  void find_sizes(const Sides& sides) {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < sides.inputs.size(); ++i) {
        const auto dims = split_dims(sides.inputs[i]);
        for (std::size_t d = 0; d < dims.size(); ++d) {
          const bool exists = i < shapes_.size() && d < shapes_[i].rank();
          changed = infer_size(dims[d], exists ? shapes_[i][d] : 1) || changed;
        }
      }
    }
    for (auto name : known_) {
      if (!sizes_.contains(name)) fail(fmt::format("the size of '{}' is unknown", name));
    }
    for (auto side : sides.inputs) {
      for (const auto& dim : split_dims(side)) check_dim_size(dim);
    }
    for (const auto& dim : split_dims(sides.output)) check_dim_size(dim);
  }

  // Sets the size of the only unknown factor of `dim`, which has `size` elements. Returns whether
  // it did.
  bool infer_size(const std::vector<std::string_view>& dim, std::int64_t size) {
    std::string_view unknown;
    for (auto written : dim) {
      if (const auto at = sizes_.find(get_factor_name(written)); at != sizes_.end()) {
        size = std::max(size / at->second, std::int64_t{1});
      } else if (unknown.empty()) {
        unknown = get_factor_name(written);
      } else {
        return false;
      }
    }
    return !unknown.empty() && sizes_.emplace(unknown, size).second;
  }

  // Rejects a dimension with more than kLargestSize elements.
  void check_dim_size(const std::vector<std::string_view>& dim) const {
    double size = 1;
    for (auto written : dim) size *= static_cast<double>(sizes_.at(get_factor_name(written)));
    if (size > static_cast<double>(kLargestSize)) fail("a dimension has more than 2^50 elements");
  }

  const std::string& index_;
  std::span<const Shape> shapes_;
  std::set<std::string_view> known_;
  std::map<std::string_view, std::int64_t> sizes_;  // sizes known so far
};

Term meaning(const Contract& a, std::span<const Shape> in) {
  Term product = term::input(0);
  for (std::size_t i = 1; i < in.size(); ++i) product = product * term::input(i);
  const auto over = find_contracted_factors(a.index);
  const auto total = over.empty() ? product : term::sum(over, product);
  return a.scale == 1 ? total : term::constant(a.scale) * total;
}

}  // namespace

const OpSpec kContract = define_op<Contract>({
    .name = "contract",
    .doc = "out = scale * the product of the inputs, summed over every factor of `index` that the "
           "output lacks (einsum)",
    .index = "(given by the attribute `index`)",
    .kernel = "contract",
    .onnx = {"Einsum"},
    .index_text =
        [](const Contract& a, std::span<const Shape> in) {
          Checker(a.index, in).run();
          check_finite("scale", a.scale);
          return a.index;
        },
    .meaning = meaning,
});

}  // namespace tandem::ops
