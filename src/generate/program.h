// Operations on operands of given types, ready to be evaluated: the types that there are, what an
// operation makes of which, and how. One for a run of the generator; threads share it once what
// they need has been made.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "generate/kernel.h"
#include "generate/operators.h"

namespace tandem::generate {

using TypeId = std::uint16_t;
constexpr std::size_t kMaxArity = 3;

// Kernels by signature, which are interned. One for each thread.
class KernelCache {
 public:
  const Kernel& of(const ops::Signature& signature);

 private:
  std::unordered_map<const ops::Signature*, std::unique_ptr<const Kernel>> kernels_;
};

// The nodes of a pattern up to one of its outputs, one after another.
class Program {
 public:
  // Throws UserError where an operator does not take its operands.
  Program(const rewrite::Side& pattern, rewrite::PatternId output,
          std::span<const TensorType> operands,
          std::span<const std::optional<rewrite::Value>> symbols, KernelCache& kernels);

  [[nodiscard]] const TensorType& type() const { return type_; }
  [[nodiscard]] TypeId type_id() const { return type_id_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  struct Memory {
    Scratch scratch;
    std::vector<std::vector<Field>> between;
    std::vector<Field> result;
  };
  void run(std::span<const Field* const> operands, Field* out, Memory& memory) const;

 private:
  friend class Programs;
  struct Step {
    int operand = -1;               // a variable of the pattern
    std::vector<Field> fixed = {};  // a constant
    const Kernel* kernel = nullptr;
    std::vector<std::size_t> inputs = {};
  };
  std::vector<Step> steps_;
  TensorType type_;
  TypeId type_id_ = 0;
  std::size_t size_ = 0;
};

class Programs {
 public:
  // Results of more elements than `largest` are not made.
  explicit Programs(std::vector<Operation> operations, std::int64_t largest);

  // Of the same operations, with no types.
  [[nodiscard]] Programs empty_copy() const { return Programs(operations_, largest_); }

  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
  TypeId type_id(const TensorType& type);
  [[nodiscard]] const TensorType& type(TypeId id) const { return types_[id]; }
  [[nodiscard]] std::size_t types() const { return types_.size(); }
  // Null where the operation does not take these operands.
  const Program* find(std::size_t operation, std::span<const TypeId> operands);
  // What find() found; null where it was never asked.
  [[nodiscard]] const Program* known(std::size_t operation, std::span<const TypeId> operands) const;

 private:
  using Key = std::uint64_t;
  static Key key_of(std::size_t operation, std::span<const TypeId> operands);
  std::unique_ptr<Program> make(std::size_t operation, std::span<const TypeId> operands);

  std::vector<Operation> operations_;
  std::int64_t largest_;
  std::vector<TensorType> types_;
  KernelCache kernels_;
  // Asked for each formula that is made: open addressing in one piece of memory.
  struct Place {
    Key key = 0;
    bool is_taken = false;
    const Program* program = nullptr;
  };
  [[nodiscard]] std::size_t at(Key key) const;  // its place, or a free one
  void grow();
  std::vector<Place> places_ = std::vector<Place>(256);
  std::size_t places_taken_ = 0;
  std::vector<std::unique_ptr<const Program>> programs_;
};

// What holds for one assignment of random values may be chance where a maximum or a relu decides:
// of four elements all are negative once in sixteen times. So everything is said of several.
constexpr std::size_t kDraws = 8;

// Random elements of a variable, the same for the same key. In some draws most elements are below
// zero, in some above.
std::vector<Field> random_values(const TensorType& type, std::int64_t below, Hash key,
                                 std::size_t draw);

// The operator of a pattern's node, whose attributes are literals.
ops::Op operator_of(const rewrite::PatternNode& node);

}  // namespace tandem::generate
