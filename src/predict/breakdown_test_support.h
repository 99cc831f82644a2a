// Test support: checks that the shares of a breakdown sum to the simulator's totals.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "predict/breakdown.h"

namespace tandem::predict {

// Expects the sums of `shares` to match the totals that the simulator computes separately.
inline void expect_adds_up(const std::vector<Share>& shares, const Simulation& s) {
  std::map<std::string, Seconds> serialized;
  Seconds compute;
  Seconds communication;
  for (const auto& share : shares) {
    serialized[share.kind] += share.serialized;
    (share.is_compute() ? compute : communication) +=
        share.is_compute() ? share.serialized : share.exposed;
    EXPECT_GE(share.exposed.value, 0);
    EXPECT_LE(share.exposed.value, share.serialized.value * (1 + 1e-9));
  }
  const auto near = 1e-9 * s.iteration.value;
  EXPECT_NEAR(communication.value, s.exposed_comm.value, near);
  EXPECT_NEAR((compute + communication + s.bubble).value, s.iteration.value, near);
  EXPECT_EQ(serialized.size(), s.serialized.size());
  for (const auto& [kind, time] : serialized) {
    EXPECT_NEAR(time.value, s.serialized.at(kind).value, near) << kind;
  }
}

}  // namespace tandem::predict
