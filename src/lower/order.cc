#include "lower/order.h"

#include <algorithm>

namespace tandem::lower {

namespace {

// How many forward turns a rank takes before it begins to alternate.
std::int64_t warm_up(const plan::Schedule& s, std::int64_t ranks, std::int64_t rank) {
  const auto chunks = s.stages / ranks;
  const auto all = s.micro_batches * chunks;
  switch (s.order) {
    case plan::Order::kGpipe:
      return all;
    case plan::Order::k1F1B:
      // With several stages a rank, each waits for the whole pipeline of those before it.
      return std::min(all, chunks > 1 ? all : ranks - rank - 1);
    case plan::Order::kInterleaved:
      return std::min(
          all, chunks > 1 ? (ranks - rank - 1) * 2 + (chunks - 1) * ranks : ranks - rank - 1);
  }
  CHECK(false);
}

// The k-th forward turn of a rank: `group` micro-batches of its first stage, the same ones of its
// second, and so on.
Turn forward_turn(const plan::Schedule& s, std::int64_t ranks, std::int64_t rank, std::int64_t k) {
  const auto chunks = s.stages / ranks;
  const auto group = s.order == plan::Order::kInterleaved ? ranks : s.micro_batches;
  const auto chunk = k / group % chunks;
  return {static_cast<std::uint16_t>(chunk * ranks + rank), Part::kForward,
          k / (group * chunks) * group + k % group};
}

// The same with the stages in reverse.
Turn backward_turn(const plan::Schedule& s, std::int64_t ranks, std::int64_t rank, std::int64_t k) {
  auto turn = forward_turn(s, ranks, rank, k);
  const auto chunk = s.stages / ranks - 1 - turn.stage / ranks;
  return {static_cast<std::uint16_t>(chunk * ranks + rank), Part::kBackward, turn.micro_batch};
}

}  // namespace

std::vector<Turn> turns_of(const plan::Schedule& s, std::int64_t ranks, std::int64_t rank,
                           Phase phase) {
  const auto chunks = s.stages / ranks;
  const auto all = s.micro_batches * chunks;
  std::vector<Turn> out;
  if (phase == Phase::kInference) {
    for (std::int64_t k = 0; k < all; ++k) out.push_back(forward_turn(s, ranks, rank, k));
    return out;
  }
  const auto first = warm_up(s, ranks, rank);
  for (std::int64_t k = 0; k < first; ++k) out.push_back(forward_turn(s, ranks, rank, k));
  for (std::int64_t k = first; k < all; ++k) {
    out.push_back(forward_turn(s, ranks, rank, k));
    out.push_back(backward_turn(s, ranks, rank, k - first));
  }
  for (std::int64_t k = all - first; k < all; ++k) {
    out.push_back(backward_turn(s, ranks, rank, k));
  }
  for (std::int64_t c = 0; c < chunks; ++c) {
    out.push_back(
        {static_cast<std::uint16_t>(c * ranks + rank), Part::kUpdate, s.micro_batches - 1});
  }
  return out;
}

}  // namespace tandem::lower
