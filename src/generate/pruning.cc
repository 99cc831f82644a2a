#include "generate/pruning.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>

#include "base/parallel.h"

namespace tandem::generate {

namespace {

// Returns tighter bounds for larger equations: there are many, and most follow in a few steps.
Bounds choose_bounds(const Formulas& formulas, const Equation& e) {
  constexpr std::size_t kFew = 100;
  const bool large = formulas.operators(e.left) > 2 || formulas.operators(e.right) > 2;
  return large ? Bounds{.states = kFew} : Bounds{};
}

FormulaId copy(const Formulas& from, FormulaId id, Formulas& to) {
  const auto& f = from[id];
  if (f.is_variable()) {
    return to.add_variable(to.programs().type_id(from.type(id)), f.operands[0]);
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

// Rewrites with copies of the given equations.
class Pruning::Worker {
 public:
  explicit Worker(const Pruning& all) : all_(all) {}

  // Returns the worker's copy of `equation`. The worker is then ready to test it against all
  // equations that are given now.
  Equation prepare_copy(const Equation& equation) {
    prepare();
    return copy(all_.formulas_, equation, session_->formulas);
  }

  // Returns whether `own`, the result of prepared(), follows. `generalise` is that of
  // select_independent().
  bool follows(const Equation& own, bool generalise) {
    if (derives(own)) return true;
    if (!generalise) return false;
    const auto general = split_variables(session_->formulas, own);
    return general != own && (is_unbound(session_->formulas, general) || derives(general));
  }

 private:
  // The worker's formulas and rewrites. A formula's number is valid in one session only.
  struct Session {
    Session(const TensorTable& table, const Formulas& like)
        : programs(table.programs().copy_without_types()),
          formulas(programs, copy_index_bounds(like, programs)),
          rewriter(table, formulas) {}

    static std::map<TypeId, std::int64_t> copy_index_bounds(const Formulas& like,
                                                            Programs& programs) {
      std::map<TypeId, std::int64_t> out;
      for (const auto& [type, below] : like.index_bounds()) {
        out.emplace(programs.type_id(like.programs().type(type)), below);
      }
      return out;
    }

    Programs programs;
    Formulas formulas;
    FormulaRewriter rewriter;
    std::size_t given = 0;
  };

  bool derives(const Equation& own) {
    return session_->rewriter.derives(own, choose_bounds(session_->formulas, own));
  }

  void prepare() {
    constexpr std::size_t kMostFormulas = std::size_t{1} << 20U;
    if (!session_ || session_->formulas.size() > kMostFormulas) {
      session_ = std::make_unique<Session>(all_.table_, all_.formulas_);
    }
    for (; session_->given < all_.given_.size(); ++session_->given) {
      session_->rewriter.add(
          copy(all_.formulas_, all_.given_[session_->given], session_->formulas));
    }
  }

  const Pruning& all_;
  std::unique_ptr<Session> session_;
};

// Tests all equations in order, with several threads. Shared formulas and given equations are read
// and changed only under the lock.
class Pruning::Asking {
 public:
  Asking(const Pruning& all, const std::vector<Equation>& equations, bool generalise)
      : all_(all), equations_(equations), generalise_(generalise), answers_(equations.size()) {}

  // Tests which equations from `begin` to `end` follow from those given now. Worker 0 and the
  // workers in help() do so.
  void test_batch(std::size_t begin, std::size_t end) {
    std::unique_lock lock(mutex_);
    begin_ = begin;
    end_ = end;
    changed_.notify_all();
    while (!failure_) {
      if (const auto i = find_open(begin_, end_)) {
        answer(*i, 0, lock);
      } else if (is_answered()) {
        begin_ = end_;  // equations retained from this batch do not reopen it
        return;
      } else {
        changed_.wait(lock);
      }
    }
    std::rethrow_exception(failure_);
  }

  [[nodiscard]] bool follows(std::size_t i) const { return answers_[i].follows; }

  // Returns whether `equation` follows from those given now.
  bool follows_now(const Equation& equation) {
    auto& worker = *all_.workers_[0];
    std::unique_lock lock(mutex_);
    const auto own = worker.prepare_copy(equation);
    lock.unlock();
    return worker.follows(own, generalise_);
  }

  // Calls change(), which changes formulas or given equations, while no worker reads them.
  template <class Change>
  void change_exclusively(Change&& change_exclusively) {
    const std::scoped_lock lock(mutex_);
    change_exclusively();
    changed_.notify_all();
  }

  void run_helper(std::size_t worker) {
    std::unique_lock lock(mutex_);
    try {
      while (!done_) {
        auto i = find_open(begin_, end_);
        if (!i) i = find_open(end_, std::min(equations_.size(), end_ + kAhead));
        if (i) {
          answer(*i, worker, lock);
        } else {
          changed_.wait(lock);
        }
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  void finish() {
    const std::scoped_lock lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t kAhead = 96;
  static constexpr std::size_t kNever = ~std::size_t{0};
  struct PruningAnswer {
    std::size_t given = kNever;  // number of given equations when it was tested
    bool follows = false;
    bool is_asked = false;  // a thread is testing it now
  };

  [[nodiscard]] bool is_open(const PruningAnswer& a) const {
    return !a.is_asked && a.given != all_.given_.size();
  }
  [[nodiscard]] std::optional<std::size_t> find_open(std::size_t begin, std::size_t end) const {
    for (auto i = begin; i < end; ++i) {
      if (is_open(answers_[i])) return i;
    }
    return std::nullopt;
  }
  [[nodiscard]] bool is_answered() const {
    return std::all_of(answers_.begin() + static_cast<std::ptrdiff_t>(begin_),
                       answers_.begin() + static_cast<std::ptrdiff_t>(end_),
                       [&](const PruningAnswer& a) { return a.given == all_.given_.size(); });
  }

  void answer(std::size_t i, std::size_t worker, std::unique_lock<std::mutex>& lock) {
    auto& a = answers_[i];
    a.is_asked = true;
    const auto given = all_.given_.size();
    const auto own = all_.workers_[worker]->prepare_copy(equations_[i]);
    lock.unlock();
    const bool follows = all_.workers_[worker]->follows(own, generalise_);
    lock.lock();
    a = {.given = given, .follows = follows};
    changed_.notify_all();
  }

  const Pruning& all_;
  const std::vector<Equation>& equations_;
  bool generalise_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PruningAnswer> answers_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool done_ = false;
  std::exception_ptr failure_;  // exception of a worker in help()
};

Pruning::Pruning(const TensorTable& table, Formulas& formulas, unsigned threads)
    : table_(table), formulas_(formulas) {
  for (unsigned t = 0; t < std::max(1U, threads); ++t) {
    workers_.push_back(std::make_unique<Worker>(*this));
  }
}

Pruning::~Pruning() = default;

void Pruning::add_given(const Equation& equation) { given_.push_back(equation); }

std::vector<Equation> Pruning::select_independent(
    const std::vector<Equation>& equations, bool generalise,
    const std::function<void(std::size_t)>& progress) {
  constexpr std::size_t kBatch = 32;  // on average, one of a batch is retained
  std::vector<Equation> independent;
  Asking asking(*this, equations, generalise);
  const auto keep_underived = [&](std::size_t begin, std::size_t end) {
    const auto given = given_.size();
    for (auto i = begin; i < end; ++i) {
      if (asking.follows(i)) continue;
      if (given_.size() > given && asking.follows_now(equations[i])) continue;
      asking.change_exclusively([&] {
        auto equation = equations[i];
        if (generalise) {
          const auto general = split_variables(formulas_, equation);
          if (holds_for_more_values(formulas_, general)) {
            equation = normalize_equation(table_, formulas_, general);
          } else if (!holds_for_more_values(formulas_, equation)) {
            return;
          }
        }
        independent.push_back(equation);
        add_given(equation);
      });
    }
  };
  parallel_for(workers_.size(), static_cast<unsigned>(workers_.size()), [&](std::size_t w) {
    if (w > 0) return asking.run_helper(w);
    struct Finish {
      Asking& asking;
      ~Finish() { asking.finish(); }
    } finish{asking};
    for (std::size_t begin = 0; begin < equations.size(); begin += kBatch) {
      progress(begin);
      const auto end = std::min(begin + kBatch, equations.size());
      asking.test_batch(begin, end);
      keep_underived(begin, end);
    }
  });
  return independent;
}

}  // namespace tandem::generate
