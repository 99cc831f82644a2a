// Operations on operands of given types, ready to be evaluated. `Programs` numbers the types. It
// also caches a program for each operation and its operand types. A run of the generator has one,
// which threads share once it has the programs that they need.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "generate/kernel.h"
#include "generate/operator_set.h"

namespace tandem::generate {

using TypeId = std::uint16_t;
constexpr std::size_t kMaxArity = 3;

// Kernels by signature. Signatures are interned. Each thread has its own cache.
class KernelCache {
 public:
  const FieldKernel& get_kernel(const ops::Signature& signature);

 private:
  std::unordered_map<const ops::Signature*, std::unique_ptr<const FieldKernel>> kernels_;
};

// The nodes of a pattern up to one of its outputs, evaluated in order.
class PatternProgram {
 public:
  // Throws UserError if an operator does not take its operands.
  PatternProgram(const rewrite::Side& pattern, rewrite::PatternId output,
                 std::span<const TensorType> operands,
                 std::span<const std::optional<rewrite::Value>> symbols, KernelCache& kernels);

  [[nodiscard]] const TensorType& type() const { return type_; }
  [[nodiscard]] TypeId type_id() const { return type_id_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  struct EvaluationMemory {
    Scratch scratch;
    std::vector<std::vector<Field>> between;
    std::vector<Field> result;
  };
  void run(std::span<const Field* const> operands, Field* out, EvaluationMemory& memory) const;

 private:
  friend class Programs;
  struct PatternStep {
    int operand = -1;               // variable of the pattern, or -1
    std::vector<Field> fixed = {};  // elements of a constant
    const FieldKernel* kernel = nullptr;
    std::vector<std::size_t> inputs = {};
  };
  std::vector<PatternStep> steps_;
  TensorType type_;
  TypeId type_id_ = 0;
  std::size_t size_ = 0;
};

class Programs {
 public:
  // Does not make programs whose results have more than `largest` elements.
  explicit Programs(std::vector<GeneratorOperation> operations, std::int64_t largest);

  // Returns an object with the same operations and no types.
  [[nodiscard]] Programs copy_without_types() const { return Programs(operations_, largest_); }

  [[nodiscard]] const std::vector<GeneratorOperation>& operations() const { return operations_; }
  TypeId type_id(const TensorType& type);
  [[nodiscard]] const TensorType& type(TypeId id) const { return types_[id]; }
  [[nodiscard]] std::size_t type_count() const { return types_.size(); }
  // Returns the program, or null if the operation does not take these operands.
  const PatternProgram* find(std::size_t operation, std::span<const TypeId> operands);
  // Returns the result of an earlier find(), or null if there was none.
  [[nodiscard]] const PatternProgram* find_known(std::size_t operation,
                                                 std::span<const TypeId> operands) const;

 private:
  using Key = std::uint64_t;
  static Key make_key(std::size_t operation, std::span<const TypeId> operands);
  std::unique_ptr<PatternProgram> make_program(std::size_t operation,
                                               std::span<const TypeId> operands);

  std::vector<GeneratorOperation> operations_;
  std::int64_t largest_;
  std::vector<TensorType> types_;
  KernelCache kernels_;
  // Programs by key, in an open-addressing table, because it is queried for each new formula.
  struct ProgramTableSlot {
    Key key = 0;
    bool is_taken = false;
    const PatternProgram* program = nullptr;
  };
  [[nodiscard]] std::size_t find_slot(Key key) const;  // index of the key, or of a free place
  void grow();
  std::vector<ProgramTableSlot> places_ = std::vector<ProgramTableSlot>(256);
  std::size_t places_taken_ = 0;
  std::vector<std::unique_ptr<const PatternProgram>> programs_;
};

// Number of random assignments on which every equality is tested. One may hold by chance if a
// maximum or a relu decides: four elements are all negative once in sixteen draws.
constexpr std::size_t kDraws = 8;

// Returns random elements of a variable, which are the same for the same key. In some draws most
// elements are negative, in others most are positive.
std::vector<Field> draw_random_values(const TensorType& type, std::int64_t below, Hash key,
                                      std::size_t draw);

// Returns the operator of a pattern node whose attributes are literals.
ops::Op make_operator(const rewrite::PatternNode& node);

}  // namespace tandem::generate
