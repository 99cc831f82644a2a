#include "search/solver/min_plus.h"

#include <algorithm>

#include "search/solver/min_plus_block.h"

namespace tandem::search {

namespace {

// Offsets of an addend's entries, at the first state of the eliminated variable and of the result's
// last variable.
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

  std::vector<std::size_t> offsets = {0};  // offset in the addend, by row
  std::vector<std::size_t> strides;        // by variable of the result: rows to its next state
  std::size_t at = 0;                      // row of the present states
};

class MinPlus {
 public:
  MinPlus(const Table& unary, const std::vector<Addend>& addends,
          const std::vector<std::size_t>& sizes)
      : unary_(unary),
        sizes_(sizes),
        cols_(sizes.back()),
        base_((unary.rows + kMostLanes - 1) / kMostLanes * kMostLanes),
        least_(base_.size()),
        most_(base_.size()),
        row_(cols_) {
    for (std::size_t from = 0; from < cols_; from += kBlock) {
      blocks_.push_back(cols_ < kBlock ? 0 : std::min(from, cols_ - kBlock));
    }
    for (const auto& a : addends) {
      if (a.strides.back() == 0) {
        constant_.push_back(make_constant(a));
      } else {
        along_.push_back(make_along(a));
        addends_.push_back({nullptr, a.own_stride});
      }
    }
  }

  MinPlusProductPtr run(Hash id) {
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
    return std::make_shared<MinPlusProduct>(MinPlusProduct{std::move(table), std::move(best)});
  }

 private:
  // An addend that lacks the last variable.
  struct ConstantAddend {
    Rows rows;
    std::vector<float> cost;  // by row, by v
  };
  struct Along {
    Rows rows;
    const float* cost;
    std::size_t own_stride;
    std::vector<float> least;  // by row, by block, by v
    std::vector<float> most;

    [[nodiscard]] const float* get_row(std::size_t v) const {
      return cost + rows.offsets[rows.at] + v * own_stride;
    }
  };

  [[nodiscard]] std::size_t states() const { return unary_.rows; }
  [[nodiscard]] std::size_t padded() const { return base_.size(); }  // rounded up to whole vectors

  ConstantAddend make_constant(const Addend& a) const {
    ConstantAddend out{Rows(a, sizes_), {}};
    out.cost.reserve(out.rows.offsets.size() * padded());
    for (auto offset : out.rows.offsets) {
      const float* from = a.table->cost.data() + offset;
      if (a.own_stride == 1) {
        out.cost.insert(out.cost.end(), from, from + states());
      } else {
        for (std::size_t v = 0; v < states(); ++v) out.cost.push_back(from[v * a.own_stride]);
      }
      out.cost.resize(out.cost.size() + padded() - states());
    }
    return out;
  }

  Along make_along(const Addend& a) const {
    Along out{Rows(a, sizes_), a.table->cost.data(), a.own_stride, {}, {}};
    if (cols_ < kBlock) return out;
    out.least.reserve(out.rows.offsets.size() * blocks_.size() * padded());
    out.most.reserve(out.least.capacity());
    for (auto offset : out.rows.offsets) {
      for (auto from : blocks_) {
        for (std::size_t v = 0; v < states(); ++v) {
          const float* block = out.cost + offset + v * a.own_stride + from;
          const auto bounds = kernels_.bounds(block);
          out.least.push_back(bounds.least);
          out.most.push_back(bounds.most);
        }
        out.least.resize(out.least.size() + padded() - states());
        out.most.resize(out.least.size());
      }
    }
    return out;
  }

  // Moves to the variable's next state. Returns false if it wraps around to the first.
  bool advance(std::size_t i, std::vector<std::size_t>& states) {
    const bool is_over = ++states[i] == sizes_[i];
    for (auto& a : constant_) a.rows.advance(i, sizes_[i], is_over);
    for (auto& a : along_) a.rows.advance(i, sizes_[i], is_over);
    if (is_over) states[i] = 0;
    return !is_over;
  }

  // Minimizes over v for all states of the last variable.
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
    for (std::size_t b = 0; b < blocks_.size(); ++b) minimize_block(b, cost, best);
  }

  void minimize_few(float* cost, std::uint32_t* best) {
    for (std::size_t v = 0; v < states(); ++v) {
      if (base_[v] >= kImpossible) continue;
      const float* row = along_[0].get_row(v);
      std::copy_n(row, cols_, row_.data());
      for (std::size_t i = 1; i < along_.size(); ++i) {
        const float* more = along_[i].get_row(v);
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

  // Sums bounds in the same order as entries, so that rounding cannot raise a lower bound above its
  // sum.
  void minimize_block(std::size_t block, float* cost, std::uint32_t* best) {
    const auto sum = [&](std::vector<float> Along::*bound,
                         std::vector<float>& out) -> const float* {
      const auto of = [&](const Along& a) {
        return (a.*bound).data() + (a.rows.at * blocks_.size() + block) * padded();
      };
      if (along_.size() == 1) return of(along_[0]);
      std::copy_n(of(along_[0]), padded(), out.data());
      for (std::size_t i = 1; i < along_.size(); ++i) {
        const float* more = of(along_[i]);
        for (std::size_t v = 0; v < padded(); ++v) out[v] += more[v];
      }
      return out.data();
    };
    const auto from = blocks_[block];
    for (std::size_t i = 0; i < along_.size(); ++i) addends_[i].cost = along_[i].get_row(0) + from;
    kernels_.minimize({.base = base_.data(),
                       .least = sum(&Along::least, least_),
                       .most = sum(&Along::most, most_),
                       .states = padded(),
                       .addends = addends_.data(),
                       .count = addends_.size()},
                      cost + from, best + from);
  }

  const BlockKernels& kernels_ = get_block_kernels();
  const Table& unary_;
  const std::vector<std::size_t>& sizes_;
  std::size_t cols_;
  std::vector<std::size_t> blocks_;  // their begins; the last may overlap the one before
  std::vector<ConstantAddend> constant_;
  std::vector<Along> along_;
  // Buffers for the present row.
  std::vector<float> base_;
  std::vector<float> least_;
  std::vector<float> most_;
  std::vector<float> row_;
  std::vector<BlockAddend> addends_;
};

}  // namespace

MinPlusProductPtr compute_min_plus(Hash id, const Table& unary, const std::vector<Addend>& addends,
                                   const std::vector<std::size_t>& sizes) {
  return MinPlus(unary, addends, sizes).run(id);
}

MinPlusProductPtr compute_min_plus(Hash id, const Table& left, const Table& unary,
                                   const Table& right) {
  return compute_min_plus(id, unary, {{&left, 1, {left.cols, 0}}, {&right, right.cols, {0, 1}}},
                          {left.rows, right.cols});
}

}  // namespace tandem::search
