#include "term/index_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace tandem::term {

namespace {

constexpr std::string_view kSpread = "...";
constexpr std::int64_t kUnknown = -1;
// Placeholder for the coefficient of a factor in a flattened dimension, until all sizes are known.
constexpr std::int64_t kOfProduct = 0;

[[noreturn]] void throw_mismatch(std::string message) {
  throw UserError("graph", "", std::move(message));
}

// Splits `text` at each separator outside parentheses: "a (b c) d" -> "a", "(b c)", "d".
std::vector<std::string_view> split_outside_parentheses(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : separator;
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c != separator || depth != 0) continue;
    out.push_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return out;
}

std::vector<std::string_view> split_dimensions(std::string_view tensor) {
  auto out = split_outside_parentheses(tensor, ' ');
  std::erase_if(out, [](std::string_view t) { return t.empty(); });
  return out;
}

// A factor as the text writes it: "!c:9".
struct Mention {
  std::string_view name;
  std::int64_t size = kUnknown;
  bool whole = false;
};

Mention parse_mention(std::string_view text) {
  Mention out;
  out.whole = text.starts_with('!');
  if (out.whole) text.remove_prefix(1);
  const auto colon = text.find(':');
  out.name = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    const auto size = parse_int(text.substr(colon + 1));
    CHECK(size.has_value(), text);
    out.size = *size;
  }
  return out;
}

// A dimension as the text writes it.
struct DimText {
  enum class DimTextForm { kFactors, kAffine } form = DimTextForm::kFactors;
  struct DimTextPart {
    Mention mention;
    std::int64_t coefficient = 1;
  };
  std::vector<DimTextPart> parts;  // kFactors: the major one first
  std::int64_t constant = 0;
};

// Parses an affine index: "2y+r-1", "c-4", "0".
DimText parse_affine(std::string_view text) {
  DimText out{.form = DimText::DimTextForm::kAffine, .parts = {}};
  for (std::size_t i = 0; i < text.size();) {
    const std::int64_t sign = text[i] == '-' ? -1 : 1;
    if (text[i] == '+' || text[i] == '-') ++i;
    const auto end = std::min(text.find_first_of("+-", i), text.size());
    auto term = text.substr(i, end - i);
    const auto digits = std::min(term.find_first_not_of("0123456789"), term.size());
    const auto number = digits == 0 ? 1 : parse_int(term.substr(0, digits)).value_or(1);
    term.remove_prefix(digits);
    if (term.empty()) {
      out.constant += sign * number;
    } else {
      out.parts.push_back({parse_mention(term), sign * number});
    }
    i = end;
  }
  return out;
}

DimText parse_dim(std::string_view text) {
  DimText out;
  if (text.starts_with('(')) {
    CHECK(text.ends_with(')'), text);
    for (auto part : split_words(text.substr(1, text.size() - 2))) {
      out.parts.push_back({parse_mention(part)});
    }
    return out;
  }
  const bool affine =
      text.find_first_of("+-") != std::string_view::npos || (text[0] >= '0' && text[0] <= '9');
  if (affine) return parse_affine(text);
  out.parts.push_back({parse_mention(text)});
  return out;
}

// Returns whether the parts count through 0..size-1 one by one, the last part fastest. Factors of
// size 1 do not matter: their index is always 0.
bool counts_exactly(const Affine& at, std::int64_t size, const IndexMap& map) {
  if (at.constant != 0) return false;
  std::int64_t unit = 1;
  for (std::size_t p = at.parts.size(); p-- > 0;) {
    if (at.parts[p].coefficient != unit) return false;
    unit *= map.factors[at.parts[p].factor].size;
  }
  return unit == size;
}

class Resolver {
 public:
  explicit Resolver(std::span<const Shape> inputs) : shapes_(inputs) {}

  IndexMap run(std::string_view text) {
    const auto bar = text.find('|');
    if (bar != std::string_view::npos) {
      bound_ = text.substr(bar + 1);
      text = text.substr(0, bar);
    }
    const auto arrow = text.find("->");
    CHECK(arrow != std::string_view::npos, text);
    const auto inputs = split_tensors(text.substr(0, arrow));
    check_count(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) read_input(i, split_dimensions(inputs[i]));
    read_output(split_dimensions(text.substr(arrow + 2)));
    for (auto name : split_words(bound_)) record_mention(parse_mention(name)).whole = true;
    solve_products();
    finish();
    return std::move(map_);
  }

 private:
  // Splits one side of the text into tensors. An empty side is one scalar, not zero tensors.
  static std::vector<std::string_view> split_tensors(std::string_view side) {
    return split_outside_parentheses(side, ',');
  }

  void check_count(std::size_t named) const {
    if (shapes_.size() > IndexMap::kMaxInputs) {
      throw_mismatch(fmt::format("has {} inputs and at most {} are supported", shapes_.size(),
                                 IndexMap::kMaxInputs));
    }
    if (named != shapes_.size()) {
      throw_mismatch(fmt::format("takes {} inputs, but has {}", named, shapes_.size()));
    }
  }

  Factor& record_mention(const Mention& m) {
    int id = map_.find(m.name);
    if (id < 0) {
      if (map_.factors.size() == IndexMap::kMaxFactors)
        throw_mismatch("runs over too many indices");
      id = static_cast<int>(map_.factors.size());
      map_.factors.push_back({std::string(m.name), kUnknown, false});
      seen_.push_back(0);
    }
    auto& f = map_.factors[static_cast<std::size_t>(id)];
    f.whole = f.whole || m.whole;
    if (m.size == kUnknown) return f;
    if (f.size != kUnknown && f.size != m.size) {
      throw_mismatch(fmt::format("index '{}' is {} and {}", f.name, f.size, m.size));
    }
    f.size = m.size;
    return f;
  }

  FactorId get_id(const Factor& f) const { return static_cast<FactorId>(&f - map_.factors.data()); }

  // Sets the size of `f` from a dimension that consists of `f` alone, or checks it.
  void unify_size(Factor& f, std::int64_t size, std::size_t input) {
    auto& seen = seen_[get_id(f)];
    if (f.size == kUnknown) {
      f.size = size;
      seen = input;
    } else if (f.size != size) {
      throw_mismatch(fmt::format("index '{}' is {} in input {} and {} in input {}", f.name, f.size,
                                 seen, size, input));
    }
  }

  void read_dim(Dims& dims, std::string_view text, std::int64_t size, std::size_t input) {
    const auto dim = parse_dim(text);
    auto& out = dims.emplace_back();
    out.size = size;
    out.at.constant = dim.constant;
    const bool affine = dim.form == DimText::DimTextForm::kAffine;
    for (const auto& part : dim.parts) {
      out.at.parts.push_back(
          {get_id(record_mention(part.mention)), affine ? part.coefficient : kOfProduct});
    }
    if (affine) return;
    if (dim.parts.size() == 1 && size != kUnknown) {
      unify_size(map_.factors[out.at.parts[0].factor], size, input);
    } else {
      products_.push_back({out.at.parts, size, input});
    }
  }

  void read_input(std::size_t i, const std::vector<std::string_view>& names) {
    const Shape& shape = shapes_[i];
    const bool spread = std::ranges::find(names, kSpread) != names.end();
    const std::size_t named = names.size() - (spread ? 1 : 0);
    if (shape.rank() < named || (!spread && shape.rank() != named)) {
      throw_mismatch(fmt::format("input {} has {} dimensions, but must have {}{}", i, shape.rank(),
                                 spread ? "at least " : "", named));
    }
    const std::size_t leading = shape.rank() - named;
    if (spread) {
      if (spread_ < 0) spread_ = static_cast<int>(leading);
      if (static_cast<std::size_t>(spread_) != leading) {
        throw_mismatch(fmt::format("input {} has {} leading dimensions and an earlier input has {}",
                                   i, leading, spread_));
      }
    }
    auto& dims = map_.inputs.emplace_back();
    for (auto name : names) {
      if (name != kSpread) {
        read_dim(dims, name, shape[dims.size()], i);
        continue;
      }
      for (std::size_t d = 0; d < leading; ++d) {
        read_dim(dims, fmt::format("d{}", d), shape[dims.size()], i);
      }
    }
  }

  void read_output(const std::vector<std::string_view>& names) {
    const bool spread = std::ranges::count(names, kSpread) != 0;
    const std::size_t rank =
        spread ? names.size() - 1 + static_cast<std::size_t>(spread_) : names.size();
    if (rank > Shape::kMaxRank) {
      throw_mismatch(
          fmt::format("the result has {} dimensions and can have {}", rank, Shape::kMaxRank));
    }
    for (auto name : names) {
      if (name != kSpread) {
        read_dim(map_.output, name, kUnknown, 0);
        continue;
      }
      for (int d = 0; d < spread_; ++d) {
        read_dim(map_.output, fmt::format("d{}", d), kUnknown, 0);
      }
    }
  }

  // Solves for unknown sizes: (g c) of size 12 with g = 4 gives c = 3. Repeats, since one dimension
  // may give a factor of another.
  void solve_products() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& product : products_) changed = solve(product) || changed;
    }
    for (const auto& product : products_) check_product(product);
  }

  struct FactorProduct {
    std::vector<Affine::AffinePart> parts;
    std::int64_t size;  // kUnknown in the output
    std::size_t input;
  };

  bool solve(const FactorProduct& product) {
    std::int64_t known = 1;
    Factor* unknown = nullptr;
    for (const auto& part : product.parts) {
      Factor& f = map_.factors[part.factor];
      if (f.size != kUnknown) {
        known *= f.size;
      } else if (unknown != nullptr) {
        return false;
      } else {
        unknown = &f;
      }
    }
    if (unknown == nullptr || product.size == kUnknown) return false;
    if (known == 0 || product.size % known != 0) {
      throw_mismatch(
          fmt::format("a dimension of input {} is {}, which is not a multiple of {} ({})",
                      product.input, product.size, known, join_names(product.parts)));
    }
    unify_size(*unknown, product.size / known, product.input);
    return true;
  }

  void check_product(const FactorProduct& product) const {
    std::int64_t size = 1;
    for (const auto& part : product.parts) {
      const Factor& f = map_.factors[part.factor];
      CHECK(f.size != kUnknown, "nothing says the size of", f.name);
      size *= f.size;
    }
    if (product.size != kUnknown && product.size != size) {
      throw_mismatch(fmt::format("a dimension of input {} is {} and its factors ({}) make {}",
                                 product.input, product.size, join_names(product.parts), size));
    }
  }

  std::string join_names(const std::vector<Affine::AffinePart>& parts) const {
    std::vector<std::string> out;
    out.reserve(parts.size());
    for (const auto& part : parts) out.push_back(map_.factors[part.factor].name);
    return join(out, " ");
  }

  // With all sizes known, sets the coefficients of flattened dimensions, the output's sizes, and
  // the carriers.
  void finish() {
    for (auto& dims : map_.inputs) finish(dims);
    finish(map_.output);
    for (auto& dim : map_.output) {
      CHECK(dim.exact, "the output must be counted through exactly");
      find_carriers(dim);
    }
    for (auto& dims : map_.inputs) {
      for (auto& dim : dims) find_carriers(dim);
    }
  }

  void finish(Dims& dims) {
    for (auto& dim : dims) {
      auto& parts = dim.at.parts;
      if (!parts.empty() && parts[0].coefficient == kOfProduct) {
        std::int64_t unit = 1;
        for (std::size_t p = parts.size(); p-- > 0;) {
          parts[p].coefficient = unit;
          unit *= map_.factors[parts[p].factor].size;
        }
        if (dim.size == kUnknown) dim.size = unit;
      } else {
        // A factor of size 1 does not make the read a window: a 1 x 1 convolution reads rows one by
        // one.
        std::erase_if(parts, [&](const auto& p) { return map_.factors[p.factor].size == 1; });
        if (dim.size == kUnknown) dim.size = 1;
      }
      dim.exact = counts_exactly(dim.at, dim.size, map_);
    }
  }

  // Sets the carriers of `dim`. A window moves with the only factor of the output that it is read
  // along.
  void find_carriers(Dim& dim) {
    std::vector<FactorId> moving;
    for (const auto& part : dim.at.parts) {
      if (dim.exact || (map_.find_output_dim(part.factor) >= 0 && part.coefficient > 0)) {
        moving.push_back(part.factor);
      }
    }
    if (dim.exact || moving.size() == 1) dim.carriers = std::move(moving);
  }

  std::span<const Shape> shapes_;
  std::string_view bound_;
  IndexMap map_;
  std::vector<std::size_t> seen_;  // by factor: the input that gave its size
  std::vector<FactorProduct> products_;
  int spread_ = -1;
};

int find_carried_dim(const Dims& dims, FactorId f) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (std::ranges::find(dims[d].carriers, f) != dims[d].carriers.end()) {
      return static_cast<int>(d);
    }
  }
  return -1;
}

}  // namespace

Shape to_shape(const Dims& dims) {
  Shape shape;
  for (const auto& dim : dims) shape.push_back(dim.size);
  return shape;
}

int IndexMap::find(std::string_view name) const {
  const auto at = std::ranges::find(factors, name, &Factor::name);
  return at == factors.end() ? -1 : static_cast<int>(at - factors.begin());
}

int IndexMap::find_input_dim(std::size_t i, FactorId f) const {
  return find_carried_dim(inputs[i], f);
}
int IndexMap::find_output_dim(FactorId f) const { return find_carried_dim(output, f); }

IndexMap resolve_index(std::string_view text, std::span<const Shape> inputs) {
  return Resolver(inputs).run(text);
}

std::vector<Affine> parse_read(std::string_view text, const IndexMap& map) {
  std::vector<Affine> out;
  const auto factor = [&](std::string_view name) {
    const int id = map.find(name);
    CHECK(id >= 0, "no factor", name);
    return static_cast<FactorId>(id);
  };
  for (auto written : split_dimensions(text)) {
    if (written == kSpread) {
      for (int d = 0, id = 0; (id = map.find(fmt::format("d{}", d))) >= 0; ++d) {
        out.push_back({{{static_cast<FactorId>(id), 1}}, 0});
      }
      continue;
    }
    const auto dim = parse_dim(written);
    Affine at{{}, dim.constant};
    std::int64_t unit = 1;
    for (std::size_t p = dim.parts.size(); p-- > 0;) {
      const auto f = factor(dim.parts[p].mention.name);
      const bool product = dim.form == DimText::DimTextForm::kFactors;
      at.parts.insert(at.parts.begin(), {f, product ? unit : dim.parts[p].coefficient});
      unit *= map.factors[f].size;
    }
    out.push_back(std::move(at));
  }
  return out;
}

}  // namespace tandem::term
