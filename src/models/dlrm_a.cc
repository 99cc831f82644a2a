// DLRM-A of MAD-Max (ISCA'24, table 2): 4096 tables of 2.08 M rows with 15 lookups a sample, bottom
// and top MLPs of 10 layers of 3994. The paper gives 793 B parameters and 638 MFLOP a sample. Its
// tool's records have width 94, which gives 800.8 B; width 93 gives 792.7 B. (The paper's 22.61 MB
// of lookups a sample belong to width 92, which gives 784.1 B.)
//
// The paper does not say how 4096 vectors meet the MLP. Dot products of all pairs would cost 3
// GFLOP a sample, and so would a layer on all vectors, so neither is in the published figure. Here
// the vectors of a sample are normalized together, averaged over the tables, and concatenated with
// the bottom MLP's result: 1.5 % more FLOP, lookups included. The norm replaces an interaction that
// needs every table's vector. As in the paper, the vectors must be exchanged; a mean alone could be
// computed table by table. The bottom MLP's first layer is as wide as the rest, so there are as
// many dense features.
//
// DLRM-A-Transformer has 4 layers of width 512, FFN 2048 and 4 heads on 80 tokens, which a linear
// layer makes of the mean. DLRM-A-MoE has 16 top MLPs, 2 for a sample.
#include "models/recommendation.h"

namespace tandem::models {

namespace {
constexpr ProductionDlrmSizes kDlrmASizes = {
    .tables = 4096, .rows = 2080000, .dim = 93, .bag = 15, .mlp_layers = 10, .mlp_width = 3994};
}  // namespace

const ModelSpec kDlrmA = {
    .name = "dlrm_a",
    .doc = "DLRM-A of MAD-Max (ISCA'24)",
    .hyperparameters = production_dlrm_hyperparameters(kDlrmASizes, Interaction::kPlain),
    .batch = 65536,
    .train_batch = 64,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_production_dlrm(s, Interaction::kPlain, batch, dtype);
        },
};

const ModelSpec kDlrmAMoe = {
    .name = "dlrm_a_moe",
    .doc = "DLRM-A of MAD-Max (ISCA'24) with a mixture of 16 experts as its top MLP",
    .hyperparameters = production_dlrm_hyperparameters(kDlrmASizes, Interaction::kExperts),
    .batch = 65536,
    .train_batch = 64,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_production_dlrm(s, Interaction::kExperts, batch, dtype);
        },
};

const ModelSpec kDlrmATransformer = {
    .name = "dlrm_a_transformer",
    .doc = "DLRM-A of MAD-Max (ISCA'24) with 4 transformer layers as its interaction",
    .hyperparameters = production_dlrm_hyperparameters(kDlrmASizes, Interaction::kTransformer),
    .batch = 65536,
    .train_batch = 64,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_production_dlrm(s, Interaction::kTransformer, batch, dtype);
        },
};

}  // namespace tandem::models
