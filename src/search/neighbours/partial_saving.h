// No more memory saved than has to be: between choices that are faster and ones that fit, the first
// operators of every stage do as the latter do, the others as the former. The first: while the
// backward pass goes back to them, it frees what the others keep.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "search/contest.h"

namespace tandem::search {

// Of one graph, under one schedule.
struct Between {
  struct End {
    std::vector<plan::Choice> choices;
    Bytes over;  // what it is known or estimated to need beyond what there is
  };
  std::string name;
  End faster;  // over > 0
  End fits;
  plan::Schedule schedule = {};
  std::shared_ptr<const Rewritten> rewritten = {};  // whose choices these are; null: the model's
  std::optional<strategies::Setting> setting = {};  // of `fits`, if it is a plain strategy
};

// `share` of every stage's operators as in `fits`. A source is as its first reader wants it.
std::vector<plan::Choice> mixed(const graph::Graph& graph, const Between& ends, double share);

// Looks for the least share that fits, in at most `most` candidates.
void enter_between(Contest& contest, const graph::Graph& graph, const Between& ends,
                   std::size_t most);

}  // namespace tandem::search
