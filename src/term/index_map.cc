#include "term/index_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace tandem::term {

namespace {

constexpr std::string_view kSpread = "...";

[[noreturn]] void mismatch(std::string message) {
  throw UserError("graph", "", std::move(message));
}

// Where a factor's size was first seen, for messages.
struct Sighting {
  std::size_t input;
};

class Resolver {
 public:
  explicit Resolver(std::span<const Shape> inputs) : shapes_(inputs) {}

  IndexMap run(std::string_view text) {
    const auto arrow = text.find("->");
    CHECK(arrow != std::string_view::npos, text);
    const auto inputs = tensors(text.substr(0, arrow));
    if (inputs.size() > IndexMap::kMaxInputs) {
      mismatch(fmt::format("has {} inputs and at most {} are supported", inputs.size(),
                           IndexMap::kMaxInputs));
    }
    if (inputs.size() != shapes_.size()) {
      mismatch(fmt::format("takes {} inputs and has {}", inputs.size(), shapes_.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) read_input(i, words(inputs[i]));
    for (auto output : tensors(text.substr(arrow + 2))) read_output(words(output));
    return std::move(map_);
  }

 private:
  // "a b, c -> " and a scalar "" differ from no tensors at all, so an empty side is one scalar.
  static std::vector<std::string_view> tensors(std::string_view side) {
    auto parts = split(side, ',');
    if (parts.empty()) parts.emplace_back();
    return parts;
  }

  FactorId factor(std::string_view name, std::int64_t size, std::size_t input) {
    const bool whole = name.starts_with('!');
    if (whole) name.remove_prefix(1);
    const int known = map_.find(name);
    if (known < 0) {
      if (map_.factors.size() == IndexMap::kMaxFactors) mismatch("runs over too many indices");
      map_.factors.push_back({std::string(name), size, whole});
      seen_.push_back({input});
      return static_cast<FactorId>(map_.factors.size() - 1);
    }
    auto& f = map_.factors[static_cast<std::size_t>(known)];
    f.whole = f.whole || whole;
    if (f.size != size) {
      mismatch(fmt::format("index '{}' is {} in input {} and {} in input {}", f.name, f.size,
                           seen_[static_cast<std::size_t>(known)].input, size, input));
    }
    return static_cast<FactorId>(known);
  }

  void read_input(std::size_t i, const std::vector<std::string_view>& names) {
    const Shape& shape = shapes_[i];
    const bool spread = std::ranges::find(names, kSpread) != names.end();
    const std::size_t named = names.size() - (spread ? 1 : 0);
    if (shape.rank() < named || (!spread && shape.rank() != named)) {
      mismatch(fmt::format("input {} has {} dimensions and needs {}{}", i, shape.rank(),
                           spread ? "at least " : "", named));
    }
    const std::size_t leading = shape.rank() - named;
    if (spread) {
      if (spread_ < 0) spread_ = static_cast<int>(leading);
      if (static_cast<std::size_t>(spread_) != leading) {
        mismatch(fmt::format("input {} has {} leading dimensions and an earlier input has {}", i,
                             leading, spread_));
      }
    }
    auto& dims = map_.inputs.emplace_back();
    for (auto name : names) {
      if (name == kSpread) {
        for (std::size_t d = 0; d < leading; ++d) {
          dims.push_back(factor(fmt::format("d{}", d), shape[dims.size()], i));
        }
      } else {
        dims.push_back(factor(name, shape[dims.size()], i));
      }
    }
  }

  void read_output(const std::vector<std::string_view>& names) {
    auto& dims = map_.outputs.emplace_back();
    const std::size_t rank = std::ranges::count(names, kSpread) == 0
                                 ? names.size()
                                 : names.size() - 1 + static_cast<std::size_t>(spread_);
    if (rank > Shape::kMaxRank) {
      mismatch(fmt::format("the result has {} dimensions and can have {}", rank, Shape::kMaxRank));
    }
    for (auto name : names) {
      if (name == kSpread) {
        for (int d = 0; d < spread_; ++d) dims.push_back(existing(fmt::format("d{}", d)));
      } else if (const auto equals = name.find('='); equals != std::string_view::npos) {
        dims.push_back(joined(name.substr(0, equals), split(name.substr(equals + 1), '+')));
      } else {
        dims.push_back(existing(name));
      }
    }
  }

  FactorId existing(std::string_view name) {
    const bool whole = name.starts_with('!');
    if (whole) name.remove_prefix(1);
    const int id = map_.find(name);
    CHECK(id >= 0, name);
    auto& f = map_.factors[static_cast<std::size_t>(id)];
    f.whole = f.whole || whole;
    return static_cast<FactorId>(id);
  }

  FactorId joined(std::string_view name, const std::vector<std::string_view>& parts) {
    std::int64_t size = 0;
    for (auto part : parts) {
      auto& f = map_.factors[existing(part)];
      f.whole = true;
      size += f.size;
    }
    const auto id = factor(name, size, 0);
    map_.factors[id].whole = true;
    return id;
  }

  std::span<const Shape> shapes_;
  IndexMap map_;
  std::vector<Sighting> seen_;
  int spread_ = -1;
};

int position(const std::vector<FactorId>& dims, FactorId f) {
  const auto at = std::ranges::find(dims, f);
  return at == dims.end() ? -1 : static_cast<int>(at - dims.begin());
}

}  // namespace

Shape IndexMap::shape_of(const std::vector<FactorId>& dims) const {
  Shape shape;
  for (auto f : dims) shape.push_back(factors[f].size);
  return shape;
}

int IndexMap::find(std::string_view name) const {
  const auto at = std::ranges::find(factors, name, &Factor::name);
  return at == factors.end() ? -1 : static_cast<int>(at - factors.begin());
}

int IndexMap::input_dim(std::size_t i, FactorId f) const { return position(inputs[i], f); }
int IndexMap::output_dim(FactorId f) const { return position(outputs[0], f); }

IndexMap resolve_index(std::string_view text, std::span<const Shape> inputs) {
  return Resolver(inputs).run(text);
}

}  // namespace tandem::term
