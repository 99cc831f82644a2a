// Recommenders: embedding tables for sparse features, MLPs for dense ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/blocks.h"
#include "models/model.h"

namespace tandem::models {

// Adds for each of `tables` an input ("index0", ...), its embedding table and the sum of the rows
// it names. `other_inputs` is the number of other tensors that the caller concatenates with them;
// it limits the number of tables.
std::vector<NodeId> add_embedding_bags(const Block& b, const Settings& settings, std::int64_t batch,
                                       std::int64_t other_inputs);

// Sizes of the recommenders of MAD-Max (ISCA'24, table 2) and their variants.
struct ProductionDlrmSizes {
  std::int64_t tables, rows, dim, bag;
  std::int64_t mlp_layers, mlp_width;
};

enum class Interaction : std::uint8_t { kPlain, kTransformer, kExperts };

std::vector<Hyperparameter> production_dlrm_hyperparameters(const ProductionDlrmSizes& sizes,
                                                            Interaction interaction);
graph::Graph build_production_dlrm(const Settings& settings, Interaction interaction,
                                   std::int64_t batch, DType dtype);

}  // namespace tandem::models
