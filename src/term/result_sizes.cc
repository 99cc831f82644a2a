#include "term/result_sizes.h"

#include <array>
#include <charconv>
#include <vector>

#include "term/index_map.h"

namespace tandem::term {

namespace {

constexpr std::int64_t kUnsaid = -1;
constexpr std::string_view kDots = "...";
constexpr std::array<std::string_view, Shape::kMaxRank> kLeading = {"d0", "d1", "d2", "d3",
                                                                    "d4", "d5", "d6", "d7"};

// Removes the text up to the next separator outside parentheses, and that separator. Returns the
// text before it.
std::string_view take_until(std::string_view& text, char separator) {
  int depth = 0;
  std::size_t i = 0;
  for (; i < text.size() && (text[i] != separator || depth != 0); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
  }
  const auto out = text.substr(0, i);
  text.remove_prefix(std::min(i + 1, text.size()));
  return out;
}

// Removes and returns the next dimension as written. Returns an empty text after the last one.
std::string_view take_dim(std::string_view& text) {
  while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  return take_until(text, ' ');
}

// Counts the tensors in one side of the text: "a b, (c d), " -> 3.
std::size_t count_tensors(std::string_view text) {
  std::size_t commas = 0;
  int depth = 0;
  for (auto c : text) {
    depth += (c == '(' ? 1 : 0) - (c == ')' ? 1 : 0);
    commas += c == ',' && depth == 0 ? 1 : 0;
  }
  return commas + 1;
}

// Collects equations on the sizes of factors. `fits_` becomes false once two disagree.
class SizeReader {
 public:
  std::optional<Shape> run(std::string_view text, std::span<const Shape> inputs) {
    const auto bar = text.find('|');
    auto bound = bar == std::string_view::npos ? std::string_view() : text.substr(bar + 1);
    text = text.substr(0, bar);
    const auto arrow = text.find("->");
    CHECK(arrow != std::string_view::npos, text);
    auto operands = text.substr(0, arrow);
    if (inputs.size() > IndexMap::kMaxInputs || count_tensors(operands) != inputs.size()) {
      return std::nullopt;
    }
    for (const auto& shape : inputs) {
      if (!read_input(take_until(operands, ','), shape)) return std::nullopt;
    }
    read_output(text.substr(arrow + 2));
    for (auto name = take_dim(bound); !name.empty(); name = take_dim(bound)) record_mention(name);
    if (!solve()) return std::nullopt;
    Shape out;
    for (std::size_t d = 0; d < rank_; ++d) out.push_back(compute_size(output_[d]));
    return out;
  }

 private:
  using Id = std::uint8_t;
  struct FactorSize {
    std::string_view name;
    std::int64_t size;
  };
  // The factors that a dimension runs over; empty for a dimension that is read at an affine index.
  struct DimFactors {
    std::array<Id, Shape::kMaxRank> factors{};
    std::size_t count = 0;
    std::int64_t size = kUnsaid;  // size of the dimension
  };

  void unify_size(Id f, std::int64_t size) {
    auto& known = factors_[f].size;
    if (known == kUnsaid) known = size;
    fits_ = fits_ && known == size;
  }

  // Records a factor as written, such as "!c:9", and returns its number.
  Id record_mention(std::string_view text) {
    if (text.starts_with('!')) text.remove_prefix(1);
    const auto colon = text.find(':');
    const auto name = text.substr(0, colon);
    Id f = 0;
    while (f < count_ && factors_[f].name != name) ++f;
    if (f == factors_.size()) {
      fits_ = false;
      return 0;
    }
    if (f == count_) factors_[count_++] = {name, kUnsaid};
    if (colon == std::string_view::npos) return f;
    std::int64_t size = 0;
    const auto* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, size);
    CHECK(read.ec == std::errc() && read.ptr == end, text);
    unify_size(f, size);
    return f;
  }

  // Records the factors of an affine index such as "2y:3+r-1". The index says nothing about the
  // dimension's size.
  void read_affine(std::string_view text) {
    while (!text.empty()) {
      text.remove_prefix(std::min(text.find_first_not_of("+-0123456789"), text.size()));
      const auto end = std::min(text.find_first_of("+-"), text.size());
      if (end > 0) record_mention(text.substr(0, end));
      text.remove_prefix(end);
    }
  }

  DimFactors read_dim(std::string_view text) {
    DimFactors out;
    const auto add = [&](std::string_view factor) {
      CHECK(out.count < out.factors.size(), text);
      out.factors[out.count++] = record_mention(factor);
    };
    if (text[0] == '(') {
      CHECK(text.ends_with(')'), text);
      auto inside = text.substr(1, text.size() - 2);
      for (auto f = take_dim(inside); !f.empty(); f = take_dim(inside)) add(f);
    } else if (text.find_first_of("+-") != std::string_view::npos ||
               (text[0] >= '0' && text[0] <= '9')) {
      read_affine(text);
    } else {
      add(text);
    }
    return out;
  }

  void read_input_dim(std::string_view text, std::int64_t size) {
    auto parts = read_dim(text);
    if (parts.count == 1) return unify_size(parts.factors[0], size);
    if (text[0] != '(') return;
    parts.size = size;
    products_.push_back(parts);
  }

  bool read_input(std::string_view text, const Shape& shape) {
    std::size_t named = 0;
    bool spread = false;
    for (auto rest = text, dim = take_dim(rest); !dim.empty(); dim = take_dim(rest)) {
      dim == kDots ? void(spread = true) : void(++named);
    }
    if (shape.rank() < named || (!spread && shape.rank() != named)) return false;
    const auto leading = shape.rank() - named;
    if (spread && spread_ == kNoSpread) spread_ = leading;
    if (spread && spread_ != leading) return false;
    std::size_t d = 0;
    for (auto dim = take_dim(text); !dim.empty(); dim = take_dim(text)) {
      if (dim != kDots) {
        read_input_dim(dim, shape[d++]);
        continue;
      }
      for (std::size_t l = 0; l < leading; ++l) read_input_dim(kLeading[l], shape[d++]);
    }
    return fits_;
  }

  void read_output(std::string_view text) {
    const auto add = [&](std::string_view dim) {
      fits_ = fits_ && rank_ < output_.size();
      if (fits_) output_[rank_++] = read_dim(dim);
    };
    for (auto dim = take_dim(text); !dim.empty(); dim = take_dim(text)) {
      if (dim != kDots) {
        add(dim);
        continue;
      }
      fits_ = fits_ && spread_ != kNoSpread;
      for (std::size_t l = 0; fits_ && l < spread_; ++l) add(kLeading[l]);
    }
  }

  // Solves for unknown sizes: (g c) of size 12 with g = 4 gives c = 3. Repeats, since one dimension
  // may give a factor of another.
  bool solve() {
    for (bool changed = true; changed && fits_;) {
      changed = false;
      for (const auto& product : products_) changed = solve(product) || changed;
    }
    for (const auto& product : products_) {
      if (!fits_) return false;
      fits_ = compute_size(product) == product.size;
    }
    return fits_;
  }

  bool solve(const DimFactors& product) {
    std::int64_t known = 1;
    std::optional<Id> unknown;
    for (std::size_t p = 0; p < product.count; ++p) {
      const auto f = product.factors[p];
      if (factors_[f].size != kUnsaid) {
        known *= factors_[f].size;
      } else if (unknown) {
        return false;
      } else {
        unknown = f;
      }
    }
    if (!unknown) return false;
    fits_ = fits_ && known != 0 && product.size % known == 0;
    if (fits_) unify_size(*unknown, product.size / known);
    return fits_;
  }

  [[nodiscard]] std::int64_t compute_size(const DimFactors& parts) const {
    std::int64_t out = 1;
    for (std::size_t p = 0; p < parts.count; ++p) {
      const auto& f = factors_[parts.factors[p]];
      CHECK(f.size != kUnsaid, "nothing says the size of", f.name);
      out *= f.size;
    }
    return out;
  }

  static constexpr std::size_t kNoSpread = ~std::size_t{0};

  std::array<FactorSize, IndexMap::kMaxFactors> factors_;
  Id count_ = 0;
  std::array<DimFactors, Shape::kMaxRank> output_;
  std::size_t rank_ = 0;
  std::vector<DimFactors> products_;
  std::size_t spread_ = kNoSpread;  // number of dimensions of "..."
  bool fits_ = true;
};

}  // namespace

std::optional<Shape> compute_result_sizes(std::string_view text, std::span<const Shape> inputs) {
  return SizeReader().run(text, inputs);
}

}  // namespace tandem::term
