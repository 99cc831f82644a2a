// Memory that no layout can save: every weight and its optimizer state are stored somewhere.
#pragma once

#include "search/search.h"

namespace tandem::search {

// Returns the bytes of a weight, its optimizer state, a master copy and a gradient that is
// retained.
Bytes compute_stored_bytes(const graph::Node& weight, plan::Optimizer optimizer,
                           const plan::Precision& precision);

// Returns a lower bound of what all devices together hold: weights, optimizer state and master
// copies, each stored once.
Bytes compute_least_stored(const graph::Graph& model, plan::Optimizer optimizer,
                           const plan::Precision& precision);

// Returns whether all devices together may use less than that. Then no plan fits, whatever its
// layouts.
bool is_too_large(const graph::Graph& model, const machine::Machine& machine,
                  const Options& options);

}  // namespace tandem::search
