// An operator on operands of given sizes, compiled for very frequent evaluation in the prime field.
//
// The compiler walks the operator's meaning once. Each read becomes a list of positions in its
// operand. Each value that depends on the index alone becomes a list of numbers. Each sum or
// maximum becomes a stage of its own, innermost first. A run then only loops over these lists.
// term/evaluate.h computes the same slowly, and is the oracle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/signature.h"
#include "term/field.h"

namespace tandem::generate {

using term::Field;

// Working memory of a run. Each thread has its own.
struct Scratch {
  std::vector<std::vector<Field>> columns;
  std::vector<const Field*> values;  // values by column, in `columns` or where they are read
  std::vector<std::vector<Field>> tables;
};

class FieldKernel {
 public:
  explicit FieldKernel(const ops::Signature& signature);

  // Computes the result. `inputs` are row-major; `out` has room for result_size() elements.
  void run(std::span<const Field* const> inputs, Field* out, Scratch& scratch) const;
  [[nodiscard]] std::size_t result_size() const { return result_size_; }
  // Returns the approximate size of the kernel in bytes.
  [[nodiscard]] std::size_t bytes() const;

 private:
  friend class KernelCompiler;

  // A list of values, one for each point of a stage, computed from earlier lists.
  struct Column {
    enum class From : std::uint8_t { kFixed, kInput, kTable, kNode };
    From from = From::kNode;
    std::uint32_t source = 0;          // number of the input or table
    std::vector<std::int32_t> places;  // positions in it, by point; negative: outside
    bool in_order = false;             // positions 0, 1, 2, ...: read without a copy
    std::vector<Field> fixed;
    term::Kind kind = term::Kind::kAdd;
    term::Function function = term::Function::kRelu;
    std::uint32_t a = 0, b = 0;  // earlier columns
  };

  enum class End : std::uint8_t { kCopy, kSum, kMax, kDot };

  // A stage computes its columns at all points. Then it reduces every `width` neighbouring points
  // to one result.
  struct Stage {
    std::vector<Column> columns;
    End end = End::kCopy;
    std::size_t points = 0;
    std::size_t width = 1;
    std::uint32_t value = 0;  // the column that is reduced
    int guard = -1;           // kMax: the column that says which points count
    // kDot: a sum of products of two reads. `left` and `right` are pairs of positions inside the
    // operands. `ends` has, by result, the end of its pairs.
    std::vector<std::uint32_t> left, right, ends;
  };

  static Field compute_dot(const Stage& stage, const Field* a, const Field* b, std::size_t result);
  // Returns the column's values at all points. Writes them to `out` unless they already exist
  // elsewhere.
  static const Field* compute_column(const Column& column, std::span<const Field* const> inputs,
                                     std::size_t points, const Scratch& scratch, Field* out);
  static void reduce_stage(const Stage& stage, const Scratch& scratch, Field* out);

  std::vector<Stage> stages_;  // each makes a table; the last one makes the result
  std::size_t result_size_ = 0;
};

}  // namespace tandem::generate
