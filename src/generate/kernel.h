// An operator on operands of given sizes, compiled to be evaluated very often in the prime field.
//
// Its meaning is walked once: every read becomes a list of places in its operand, everything that
// depends on the index alone a list of numbers, and the sums and maxima, innermost first, stages of
// their own. What is left for a run are loops over these lists. term/evaluate.h says the same
// slowly, and is the oracle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/signature.h"
#include "term/field.h"

namespace tandem::generate {

using term::Field;

// What a run needs beside its result; one for each thread.
struct Scratch {
  std::vector<std::vector<Field>> columns;
  std::vector<const Field*> values;  // by column: those, or where they are read from
  std::vector<std::vector<Field>> tables;
};

class Kernel {
 public:
  explicit Kernel(const ops::Signature& signature);

  // Row-major operands, and room for result_size() elements.
  void run(std::span<const Field* const> inputs, Field* out, Scratch& scratch) const;
  [[nodiscard]] std::size_t result_size() const { return result_size_; }
  // About how much memory it takes.
  [[nodiscard]] std::size_t bytes() const;

 private:
  friend class KernelCompiler;

  // A list of values, one for each point of a stage, made from earlier lists.
  struct Column {
    enum class From : std::uint8_t { kFixed, kInput, kTable, kNode };
    From from = From::kNode;
    std::uint32_t source = 0;          // which input or table
    std::vector<std::int32_t> places;  // in it, by point; negative: beyond the edge
    bool in_order = false;             // the first, the second, ...: read where they are
    std::vector<Field> fixed;
    term::Kind kind = term::Kind::kAdd;
    term::Function function = term::Function::kRelu;
    std::uint32_t a = 0, b = 0;  // earlier columns
  };

  enum class End : std::uint8_t { kCopy, kSum, kMax, kDot };

  // Computes its columns at all points; then every `width` neighbouring points are one result.
  struct Stage {
    std::vector<Column> columns;
    End end = End::kCopy;
    std::size_t points = 0;
    std::size_t width = 1;
    std::uint32_t value = 0;  // the column that is added up
    int guard = -1;           // kMax: the column that says which points count
    // kDot: a sum of products of two reads. Pairs of places that are both inside, and by result
    // where they end.
    std::vector<std::uint32_t> left, right, ends;
  };

  static Field dot(const Stage& stage, const Field* a, const Field* b, std::size_t result);
  // At all points; in `out`, unless they are somewhere already.
  static const Field* fill(const Column& column, std::span<const Field* const> inputs,
                           std::size_t points, const Scratch& scratch, Field* out);
  static void finish(const Stage& stage, const Scratch& scratch, Field* out);

  std::vector<Stage> stages_;  // each makes a table; the last one the result
  std::size_t result_size_ = 0;
};

}  // namespace tandem::generate
