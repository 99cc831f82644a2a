#include "generate/pruning.h"

#include <algorithm>
#include <atomic>

#include "base/parallel.h"

namespace tandem::generate {

namespace {

// There are many of the larger ones, and most follow in a few steps.
Bounds bounds_of(const Formulas& formulas, const Equation& e) {
  constexpr std::size_t kFew = 100;
  const bool large = formulas.operators(e.left) > 2 || formulas.operators(e.right) > 2;
  return large ? Bounds{.states = kFew} : Bounds{};
}

FormulaId copy(const Formulas& from, FormulaId id, Formulas& to) {
  const auto& f = from[id];
  if (f.is_variable()) {
    return to.variable(to.programs().type_id(from.type(id)), f.operands[0]);
  }
  std::array<FormulaId, kMaxArity> operands{};
  const auto old = from.operands(id);
  for (std::size_t i = 0; i < old.size(); ++i) operands[i] = copy(from, old[i], to);
  const auto out = to.apply(f.operation, std::span(operands).first(old.size()));
  CHECK(out.has_value());
  return *out;
}

Equation copy(const Formulas& from, const Equation& equation, Formulas& to) {
  Equation out;
  for (auto id : equation.left) out.left.push_back(copy(from, id, to));
  for (auto id : equation.right) out.right.push_back(copy(from, id, to));
  return out;
}

}  // namespace

// Rewrites with copies of what was given.
class Pruning::Worker {
 public:
  explicit Worker(const Pruning& all) : all_(all) {}

  // `generalise` as in without_derived().
  bool follows(const Equation& equation, bool generalise) {
    prepare();
    const auto own = copy(all_.formulas_, equation, session_->formulas);
    if (derives(own)) return true;
    if (!generalise) return false;
    const auto general = with_distinct_variables(session_->formulas, own);
    return general != own && (is_unbound(session_->formulas, general) || derives(general));
  }

 private:
  // A formula's number means something in one session only.
  struct Session {
    Session(const TensorTable& table, const Formulas& like)
        : programs(table.programs().empty_copy()),
          formulas(programs, below(like, programs)),
          rewriting(table, formulas) {}

    static std::map<TypeId, std::int64_t> below(const Formulas& like, Programs& programs) {
      std::map<TypeId, std::int64_t> out;
      for (const auto& [type, below] : like.below()) {
        out.emplace(programs.type_id(like.programs().type(type)), below);
      }
      return out;
    }

    Programs programs;
    Formulas formulas;
    Rewriting rewriting;
    std::size_t given = 0;
  };

  bool derives(const Equation& own) {
    return session_->rewriting.derives(own, bounds_of(session_->formulas, own));
  }

  void prepare() {
    constexpr std::size_t kMostFormulas = std::size_t{1} << 20U;
    if (!session_ || session_->formulas.size() > kMostFormulas) {
      session_ = std::make_unique<Session>(all_.table_, all_.formulas_);
    }
    for (; session_->given < all_.given_.size(); ++session_->given) {
      session_->rewriting.add(
          copy(all_.formulas_, all_.given_[session_->given], session_->formulas));
    }
  }

  const Pruning& all_;
  std::unique_ptr<Session> session_;
};

Pruning::Pruning(const TensorTable& table, Formulas& formulas, unsigned threads)
    : table_(table), formulas_(formulas) {
  for (unsigned t = 0; t < std::max(1U, threads); ++t) {
    workers_.push_back(std::make_unique<Worker>(*this));
  }
}

Pruning::~Pruning() = default;

void Pruning::give(const Equation& equation) { given_.push_back(equation); }

std::vector<Equation> Pruning::without_derived(const std::vector<Equation>& equations,
                                               bool generalise,
                                               const std::function<void(std::size_t)>& progress) {
  constexpr std::size_t kBatch = 32;  // of which one is kept on average
  std::vector<Equation> kept;
  for (std::size_t begin = 0; begin < equations.size(); begin += kBatch) {
    progress(begin);
    const auto batch =
        std::span(equations).subspan(begin, std::min(kBatch, equations.size() - begin));
    std::array<bool, kBatch> follows{};
    std::atomic<std::size_t> next = 0;
    parallel_for(workers_.size(), static_cast<unsigned>(workers_.size()), [&](std::size_t w) {
      for (auto i = next++; i < batch.size(); i = next++) {
        follows[i] = workers_[w]->follows(batch[i], generalise);
      }
    });
    const auto given = given_.size();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (follows[i]) continue;
      if (given_.size() > given && workers_[0]->follows(batch[i], generalise)) continue;
      auto equation = batch[i];
      if (generalise) {
        const auto general = with_distinct_variables(formulas_, equation);
        if (holds_again(formulas_, general)) {
          equation = normalised(table_, formulas_, general);
        } else if (!holds_again(formulas_, equation)) {
          continue;
        }
      }
      kept.push_back(equation);
      give(equation);
    }
  }
  return kept;
}

}  // namespace tandem::generate
