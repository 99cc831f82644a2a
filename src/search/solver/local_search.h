// Local searches that change one variable at a time, for comparison with elimination. They do not
// know how far they are from the minimum.
#pragma once

#include <cstdint>
#include <vector>

#include "search/solver/elimination.h"

namespace tandem::search {

// Marks variables that are not choices of their own. After a neighbour has changed, they take the
// state that is best then.
using Followers = std::vector<bool>;

// Sets each variable that is no follower to its best state, given the others, until no change
// gains.
//   cost(a, b) = {{2, 3}, {3, 1}} stays at a = 0, b = 0, which costs 2: one change makes it 3. If b
//   follows a, the change to a = 1 also sets b = 1, and the cost is 1.
Minimum descend(const CostNetwork& network, const Followers& followers);

// FlexFlow's search (Jia et al., MLSys'19). A random variable takes a random state. A change that
// gains is accepted; another one with a probability that falls with its loss. The result is the
// best assignment seen. It ends when the second half of the steps has brought no gain.
struct Walk {
  std::uint64_t seed = 0;
  std::size_t least_steps = 100;  // per variable
  std::size_t most_steps = 2000;  // per variable
  double warmth = 0.1;  // loss, in mean costs of a variable, that is accepted with probability 1/e
};
Minimum walk(const CostNetwork& network, const Followers& followers, const Walk& options);

}  // namespace tandem::search
