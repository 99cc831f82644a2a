// What no layout can save: every weight and its optimizer's state are stored somewhere.
#pragma once

#include "search/search.h"

namespace tandem::search {

// Of a weight: itself, its optimizer's state, a master copy and a gradient that is kept.
Bytes stored_bytes(const graph::Node& weight, plan::Optimizer optimizer,
                   const plan::Precision& precision);

// Weights, state and master copies, each stored once: what all devices together hold at least.
Bytes least_stored(const graph::Graph& model, plan::Optimizer optimizer,
                   const plan::Precision& precision);

// May all devices together use less than that? Then no plan fits, whatever its layouts.
bool is_too_large(const graph::Graph& model, const machine::Machine& machine,
                  const Options& options);

}  // namespace tandem::search
