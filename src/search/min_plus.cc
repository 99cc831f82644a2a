#include "search/min_plus.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace tandem::search {

namespace {

// Columns that are minimised together: what they come to so far stays in registers.
constexpr std::size_t kLanes = 4;
constexpr std::size_t kVectors = 4;
constexpr std::size_t kBlock = kVectors * kLanes;
using Costs [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using States [[gnu::vector_size(kLanes * sizeof(std::int32_t))]] = std::int32_t;

template <typename Vector, typename T>
Vector load(const T* from) {
  Vector out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

void store(const Costs& costs, float* to) { std::memcpy(to, &costs, sizeof costs); }

Costs all(float cost) { return Costs{} + cost; }

bool any(const States& mask) {
  const auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(mask);
  return (halves[0] | halves[1]) != 0;
}

// The least of a block, or with `sign` -1 the most, negated.
float least_of(const float* block, float sign) {
  Costs out = sign * load<Costs>(block);
  for (std::size_t i = 1; i < kVectors; ++i) {
    const Costs next = sign * load<Costs>(block + i * kLanes);
    out = next < out ? next : out;
  }
  return std::min({out[0], out[1], out[2], out[3]});
}

// An addend's entries at the first states of the eliminated variable and the result's last one.
struct Rows {
  Rows(const Addend& addend, const std::vector<std::size_t>& sizes) : strides(sizes.size()) {
    for (auto i = sizes.size() - 1; i-- > 0;) {
      if (addend.strides[i] == 0) continue;
      strides[i] = offsets.size();
      const auto known = offsets;
      for (std::size_t s = 1; s < sizes[i]; ++s) {
        for (auto offset : known) offsets.push_back(offset + s * addend.strides[i]);
      }
    }
  }

  void advance(std::size_t i, std::size_t size, bool is_over) {
    at += strides[i];
    if (is_over) at -= strides[i] * size;
  }

  std::vector<std::size_t> offsets = {0};  // by row, in the addend
  std::vector<std::size_t> strides;        // by variable of the result: rows to its next state
  std::size_t at = 0;                      // the row for the states at hand
};

class MinPlus {
 public:
  MinPlus(const Table& unary, const std::vector<Addend>& addends,
          const std::vector<std::size_t>& sizes)
      : unary_(unary),
        sizes_(sizes),
        cols_(sizes.back()),
        base_((unary.rows + kLanes - 1) / kLanes * kLanes),
        least_(base_.size()),
        most_(base_.size()),
        row_(cols_),
        hopeful_(base_.size()) {
    for (std::size_t from = 0; from < cols_; from += kBlock) {
      blocks_.push_back(cols_ < kBlock ? 0 : std::min(from, cols_ - kBlock));
    }
    for (const auto& a : addends) {
      if (a.strides.back() == 0) {
        constant_.push_back(constant_of(a));
      } else {
        along_.push_back(along_of(a));
      }
    }
  }

  ProductPtr run(Hash id) {
    auto table = std::make_shared<Table>();
    table->id = id;
    table->cols = cols_;
    table->rows = 1;
    for (std::size_t i = 0; i + 1 < sizes_.size(); ++i) table->rows *= sizes_[i];
    table->cost.assign(table->rows * cols_, kImpossible);
    std::vector<std::uint32_t> best(table->cost.size());
    std::vector<std::size_t> states(sizes_.size());
    for (std::size_t r = 0; r < table->rows; ++r) {
      minimize_row(table->cost.data() + r * cols_, best.data() + r * cols_);
      for (auto i = sizes_.size() - 1; i-- > 0 && !advance(i, states);) continue;
    }
    return std::make_shared<Product>(Product{std::move(table), std::move(best)});
  }

 private:
  // Lacks the last variable.
  struct Constant {
    Rows rows;
    std::vector<float> cost;  // by row, by v
  };
  struct Along {
    Rows rows;
    const float* cost;
    std::size_t own_stride;
    std::vector<float> least;  // by row, by block, by v
    std::vector<float> most;

    [[nodiscard]] const float* row_of(std::size_t v) const {
      return cost + rows.offsets[rows.at] + v * own_stride;
    }
  };

  [[nodiscard]] std::size_t states() const { return unary_.rows; }
  [[nodiscard]] std::size_t padded() const { return base_.size(); }  // to whole vectors

  Constant constant_of(const Addend& a) const {
    Constant out{Rows(a, sizes_), {}};
    out.cost.reserve(out.rows.offsets.size() * padded());
    for (auto offset : out.rows.offsets) {
      for (std::size_t v = 0; v < states(); ++v) {
        out.cost.push_back(a.table->cost[offset + v * a.own_stride]);
      }
      out.cost.resize(out.cost.size() + padded() - states());
    }
    return out;
  }

  Along along_of(const Addend& a) const {
    Along out{Rows(a, sizes_), a.table->cost.data(), a.own_stride, {}, {}};
    if (cols_ < kBlock) return out;
    out.least.reserve(out.rows.offsets.size() * blocks_.size() * padded());
    out.most.reserve(out.least.capacity());
    for (auto offset : out.rows.offsets) {
      for (auto from : blocks_) {
        for (std::size_t v = 0; v < states(); ++v) {
          const float* block = out.cost + offset + v * a.own_stride + from;
          out.least.push_back(least_of(block, 1));
          out.most.push_back(-least_of(block, -1));
        }
        out.least.resize(out.least.size() + padded() - states());
        out.most.resize(out.least.size());
      }
    }
    return out;
  }

  // To the variable's next state; false where it was at its last and is at its first again.
  bool advance(std::size_t i, std::vector<std::size_t>& states) {
    const bool is_over = ++states[i] == sizes_[i];
    for (auto& a : constant_) a.rows.advance(i, sizes_[i], is_over);
    for (auto& a : along_) a.rows.advance(i, sizes_[i], is_over);
    if (is_over) states[i] = 0;
    return !is_over;
  }

  // All states of the last variable.
  void minimize_row(float* cost, std::uint32_t* best) {
    std::ranges::copy(unary_.cost, base_.begin());
    std::fill(base_.begin() + static_cast<std::ptrdiff_t>(states()), base_.end(), 2 * kImpossible);
    for (const auto& a : constant_) {
      const float* more = a.cost.data() + a.rows.at * padded();
      for (std::size_t v = 0; v < base_.size(); ++v) base_[v] += more[v];
    }
    if (cols_ < kBlock) {
      minimize_few(cost, best);
      return;
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      find_hopeful(b);
      minimize_block(blocks_[b], cost, best);
    }
  }

  void minimize_few(float* cost, std::uint32_t* best) {
    for (std::size_t v = 0; v < states(); ++v) {
      if (base_[v] >= kImpossible) continue;
      const float* row = along_[0].row_of(v);
      std::copy_n(row, cols_, row_.data());
      for (std::size_t i = 1; i < along_.size(); ++i) {
        const float* more = along_[i].row_of(v);
        for (std::size_t c = 0; c < cols_; ++c) row_[c] += more[c];
      }
      for (std::size_t c = 0; c < cols_; ++c) {
        const float candidate = base_[v] + row_[c];
        const bool better = candidate < cost[c];
        cost[c] = better ? candidate : cost[c];
        best[c] = better ? static_cast<std::uint32_t>(v) : best[c];
      }
    }
  }

  // States that may have a minimum in this block: at the least they cost no more than what each
  // column is known to come to. Sums are made in the order of the entries' own, so that rounding
  // keeps what is less no greater.
  void find_hopeful(std::size_t block) {
    const auto sum = [&](std::vector<float> Along::*bound,
                         std::vector<float>& out) -> const float* {
      const auto of = [&](const Along& a) {
        return (a.*bound).data() + (a.rows.at * blocks_.size() + block) * padded();
      };
      if (along_.size() == 1) return of(along_[0]);
      std::copy_n(of(along_[0]), padded(), out.data());
      for (std::size_t i = 1; i < along_.size(); ++i) {
        const float* more = of(along_[i]);
        for (std::size_t v = 0; v < padded(); v += kLanes) {
          store(load<Costs>(out.data() + v) + load<Costs>(more + v), out.data() + v);
        }
      }
      return out.data();
    };
    const float* most = sum(&Along::most, most_);
    const float* least = sum(&Along::least, least_);
    Costs known = all(kImpossible);
    for (std::size_t v = 0; v < padded(); v += kLanes) {
      const Costs here = load<Costs>(&base_[v]) + load<Costs>(most + v);
      known = here < known ? here : known;
    }
    known = all(std::min({known[0], known[1], known[2], known[3]}));
    count_ = 0;
    for (std::size_t v = 0; v < padded(); v += kLanes) {
      const States may = load<Costs>(&base_[v]) + load<Costs>(least + v) <= known;
      if (!any(may)) continue;
      for (std::size_t i = 0; i < kLanes; ++i) {
        hopeful_[count_] = static_cast<std::uint32_t>(v + i);
        count_ += may[i] != 0 ? 1 : 0;
      }
    }
  }

  void minimize_block(std::size_t from, float* cost, std::uint32_t* best) const {
    Costs least[kVectors];
    States state[kVectors];
    for (auto& l : least) l = all(kImpossible);
    for (auto& s : state) s = States{};
    for (std::size_t h = 0; h < count_; ++h) {
      const auto v = hopeful_[h];
      const Costs base = all(base_[v]);
      const States own = States{} + static_cast<std::int32_t>(v);
      const float* row = along_[0].row_of(v) + from;
      Costs sum[kVectors];
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kVectors; ++i) sum[i] = load<Costs>(row + i * kLanes);
      for (std::size_t a = 1; a < along_.size(); ++a) {
        const float* more = along_[a].row_of(v) + from;
#pragma GCC unroll 4
        for (std::size_t i = 0; i < kVectors; ++i) sum[i] += load<Costs>(more + i * kLanes);
      }
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kVectors; ++i) {
        const Costs candidate = base + sum[i];
        const States better = candidate < least[i];
        least[i] = better ? candidate : least[i];
        state[i] = better ? own : state[i];
      }
    }
    std::memcpy(cost + from, least, sizeof least);
    std::memcpy(best + from, state, sizeof state);
  }

  const Table& unary_;
  const std::vector<std::size_t>& sizes_;
  std::size_t cols_;
  std::vector<std::size_t> blocks_;  // where they begin; the last may overlap the one before
  std::vector<Constant> constant_;
  std::vector<Along> along_;
  // Of the row at hand:
  std::vector<float> base_;
  std::vector<float> least_;
  std::vector<float> most_;
  std::vector<float> row_;
  std::vector<std::uint32_t> hopeful_;
  std::size_t count_ = 0;  // of these
};

}  // namespace

ProductPtr min_plus(Hash id, const Table& unary, const std::vector<Addend>& addends,
                    const std::vector<std::size_t>& sizes) {
  return MinPlus(unary, addends, sizes).run(id);
}

ProductPtr min_plus(Hash id, const Table& left, const Table& unary, const Table& right) {
  return min_plus(id, unary, {{&left, 1, {left.cols, 0}}, {&right, right.cols, {0, 1}}},
                  {left.rows, right.cols});
}

}  // namespace tandem::search
