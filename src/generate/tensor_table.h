// All distinct tensors that graphs of up to N operators compute, and the pairs of graphs that
// compute the same tensor.
//
// The table is filled level by level. Operators are applied only to distinct tensors of lower
// levels, never to a second way to compute one. Equalities with the second way follow from the
// equality of the two. Tensors are distinguished by type and by a hash of their values for random
// inputs in the prime field. A graph shares its equal parts. A level therefore counts the different
// applications that a tensor needs, including its own.
//
// A tensor that is computed from constants alone is compared with the constants, and nothing is
// built on it. The highest level stores only hashes, because nothing is built on it.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/hash_set.h"
#include "generate/program.h"

namespace tandem::generate {

using TensorId = std::uint32_t;

// An operation applied to tensors of the table.
struct Application {
  std::uint16_t operation = 0;
  std::array<TensorId, kMaxArity> operands = {};
  bool operator==(const Application&) const = default;
};

constexpr std::uint16_t kVariable = 0xffff;  // operation of a variable; operands[0]: its number

struct TableTensor {
  static constexpr std::size_t kMaxLevel = 6;
  Application producer;
  TypeId type = 0;
  std::uint8_t level = 0;
  std::array<std::uint32_t, kMaxLevel> needs = {};  // numbers of applications, sorted
  bool closed = false;                              // computed from constants alone
  std::size_t value = 0;                            // start of the first draw in values_
  [[nodiscard]] std::span<const std::uint32_t> applications() const {
    return std::span(needs).first(level);
  }
};

// Two ways to compute one tensor. `right` is the earlier one.
struct Equality {
  Application left;
  Application right;
};

struct TableProgress {
  std::size_t graphs = 0;
  std::size_t done = 0, of = 0;  // pieces of the level
  std::size_t level = 0;
};

class TensorTable {
 public:
  TensorTable(const OperatorSet& set, unsigned threads);

  // Adds the tensors of graphs with up to `levels` operators. Calls `progress` now and then.
  void fill(std::size_t levels, const std::function<void(const TableProgress&)>& progress);

  [[nodiscard]] std::size_t graphs() const { return graphs_; }
  [[nodiscard]] std::size_t distinct() const { return distinct_; }
  [[nodiscard]] const std::vector<Equality>& equalities() const { return equalities_; }
  [[nodiscard]] const std::vector<TableTensor>& tensors() const { return tensors_; }
  [[nodiscard]] Programs& programs() { return programs_; }
  [[nodiscard]] const Programs& programs() const { return programs_; }
  [[nodiscard]] const std::vector<VariableGroup>& variables() const { return variables_; }
  [[nodiscard]] bool commutes(std::size_t operation) const { return commutes_[operation]; }

 private:
  struct FoundApplication {
    Hash hash = 0;  // hash of the first draw, or of all draws if that is not unique
    Hash first_draw = 0;
    Application application;
    TypeId type = 0;
    bool closed = false;
  };
  struct OperandChoice {
    TypeId third = 0;
    const PatternProgram* program = nullptr;
  };
  struct Piece {
    std::uint16_t operation = 0;
    TypeId first = 0;
    std::size_t begin = 0, end = 0;  // range of first operands among the tensors of that type
    // Possible third operands, by type of the second operand.
    std::vector<std::vector<OperandChoice>> choices = {};
    std::vector<FoundApplication> found = {};
  };

  void add_leaves();
  void find_commutative();
  void find_partners(std::size_t level);
  std::vector<std::vector<OperandChoice>> find_choices(std::size_t operation, TypeId first);
  void add_pieces(std::size_t level, std::vector<Piece>& pieces);
  void run_piece(std::size_t level, Piece& piece, PatternProgram::EvaluationMemory& memory) const;
  void apply(const Application& application, std::size_t arity, const PatternProgram& program,
             Piece& piece, PatternProgram::EvaluationMemory& memory) const;
  void refine(std::vector<Piece>& pieces, bool all,
              std::vector<PatternProgram::EvaluationMemory>& memories);
  void store_results(const std::vector<Piece>& pieces, std::size_t level);
  void compare_results(const std::vector<Piece>& pieces);
  TensorId add_tensor(const Application& application, TypeId type, std::size_t level);
  std::uint32_t number_application(const Application& application);
  [[nodiscard]] std::size_t compute_union_size(TensorId a, TensorId b) const;
  [[nodiscard]] std::size_t count_elements(TypeId type) const;
  [[nodiscard]] const Field* value(TensorId id, std::size_t draw) const;
  // Returns the hash over all draws.
  [[nodiscard]] Hash compute_full_hash(const Application& application,
                                       PatternProgram::EvaluationMemory& memory) const;
  void compute_tensor(TensorId id, PatternProgram::EvaluationMemory& memory);

  unsigned threads_;
  Programs programs_;
  std::vector<VariableGroup> variables_;
  std::vector<bool> commutes_;
  std::vector<TableTensor> tensors_;
  std::vector<Field> values_;
  std::unordered_map<Hash, TensorId> by_hash_;  // hash over all draws
  HashSet first_draws_;
  std::unordered_map<Hash, std::uint32_t> application_numbers_;
  // Tensors by type and level.
  std::vector<std::array<std::vector<TensorId>, TableTensor::kMaxLevel + 1>> of_type_;
  // For each tensor, those that share applications with it. Both together need one application
  // fewer than the level.
  std::vector<std::vector<TensorId>> partners_;
  std::vector<Equality> equalities_;
  std::size_t graphs_ = 0;
  std::size_t distinct_ = 0;
};

}  // namespace tandem::generate
