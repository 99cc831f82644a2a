#include "lower/order.h"

#include <algorithm>

namespace tandem::lower {

namespace {

// The turns of one rank in steps that flow into each other: as if they were one step with more
// micro-batches.
class Flow {
 public:
  Flow(const plan::Schedule& schedule, std::int64_t ranks, std::int64_t rank,
       std::int64_t first_step, std::int64_t steps)
      : s_(schedule),
        ranks_(ranks),
        rank_(rank),
        chunks_(schedule.stages / ranks),
        per_step_(schedule.micro_batches * chunks_),
        first_step_(first_step),
        all_(per_step_ * steps) {}

  void forward_only(std::vector<Turn>& out) const {
    for (std::int64_t k = 0; k < all_; ++k) out.push_back(forward(k));
  }

  void training(std::vector<Turn>& out) const {
    const auto first = warm_up();
    for (std::int64_t k = 0; k < first; ++k) out.push_back(forward(k));
    for (std::int64_t k = first; k < all_; ++k) {
      out.push_back(forward(k));
      add_backward(k - first, out);
    }
    for (std::int64_t k = all_ - first; k < all_; ++k) add_backward(k, out);
  }

 private:
  // How many forward turns the rank takes before it begins to alternate.
  [[nodiscard]] std::int64_t warm_up() const {
    switch (s_.order) {
      case plan::Order::kGpipe:
        return all_;
      case plan::Order::k1F1B:
        // With several stages a rank, each waits for the whole pipeline of those before it.
        return std::min(all_, chunks_ > 1 ? all_ : ranks_ - rank_ - 1);
      case plan::Order::kInterleaved:
        return std::min(all_, chunks_ > 1 ? (ranks_ - rank_ - 1) * 2 + (chunks_ - 1) * ranks_
                                          : ranks_ - rank_ - 1);
    }
    CHECK(false);
  }

  // The k-th forward turn: `group` micro-batches of the rank's first stage, the same ones of its
  // second, and so on.
  [[nodiscard]] Turn forward(std::int64_t k) const {
    const auto in_step = k % per_step_;
    const auto group = s_.order == plan::Order::kInterleaved ? ranks_ : s_.micro_batches;
    const auto chunk = in_step / group % chunks_;
    return {static_cast<std::uint16_t>(chunk * ranks_ + rank_), Part::kForward,
            in_step / (group * chunks_) * group + in_step % group, first_step_ + k / per_step_};
  }

  // The same with the stages in reverse. A step's last is followed by its updates.
  void add_backward(std::int64_t k, std::vector<Turn>& out) const {
    auto turn = forward(k);
    const auto chunk = chunks_ - 1 - turn.stage / ranks_;
    turn.stage = static_cast<std::uint16_t>(chunk * ranks_ + rank_);
    turn.part = Part::kBackward;
    out.push_back(turn);
    if ((k + 1) % per_step_ != 0) return;
    for (std::int64_t c = 0; c < chunks_; ++c) {
      out.push_back({static_cast<std::uint16_t>(c * ranks_ + rank_), Part::kUpdate,
                     s_.micro_batches - 1, turn.step});
    }
  }

  const plan::Schedule& s_;
  std::int64_t ranks_, rank_, chunks_;
  std::int64_t per_step_;  // forward turns, and as many backward
  std::int64_t first_step_;
  std::int64_t all_;
};

}  // namespace

std::vector<Turn> turns_of(const plan::Schedule& schedule, std::int64_t ranks, std::int64_t rank,
                           Phase phase, std::int64_t steps) {
  const auto flowing = schedule.is_delayed() ? steps : 1;
  std::vector<Turn> out;
  for (std::int64_t step = 0; step < steps; step += flowing) {
    const Flow flow(schedule, ranks, rank, step, flowing);
    if (phase == Phase::kInference) {
      flow.forward_only(out);
    } else {
      flow.training(out);
    }
  }
  return out;
}

}  // namespace tandem::lower
