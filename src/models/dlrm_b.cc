// DLRM-B of MAD-Max (ISCA'24, table 2): 512 tables of 7.05 M rows of width 92 with 70 lookups a
// sample, bottom and top MLPs of 22 layers of 826; 332 B parameters and 60 MFLOP a sample.
// Unpublished details and the variants are the same as in dlrm_a.cc.
#include "models/recommendation.h"

namespace tandem::models {

namespace {
constexpr ProductionDlrmSizes kDlrmBSizes = {
    .tables = 512, .rows = 7050000, .dim = 92, .bag = 70, .mlp_layers = 22, .mlp_width = 826};
}  // namespace

const ModelSpec kDlrmB = {
    .name = "dlrm_b",
    .doc = "DLRM-B of MAD-Max (ISCA'24)",
    .hyperparameters = production_dlrm_hyperparameters(kDlrmBSizes, Interaction::kPlain),
    .batch = 262144,
    .train_batch = 64,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_production_dlrm(s, Interaction::kPlain, batch, dtype);
        },
};

const ModelSpec kDlrmBMoe = {
    .name = "dlrm_b_moe",
    .doc = "DLRM-B of MAD-Max (ISCA'24) with a mixture of 16 experts as its top MLP",
    .hyperparameters = production_dlrm_hyperparameters(kDlrmBSizes, Interaction::kExperts),
    .batch = 262144,
    .train_batch = 64,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_production_dlrm(s, Interaction::kExperts, batch, dtype);
        },
};

const ModelSpec kDlrmBTransformer = {
    .name = "dlrm_b_transformer",
    .doc = "DLRM-B of MAD-Max (ISCA'24) with 4 transformer layers as its interaction",
    .hyperparameters = production_dlrm_hyperparameters(kDlrmBSizes, Interaction::kTransformer),
    .batch = 262144,
    .train_batch = 64,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_production_dlrm(s, Interaction::kTransformer, batch, dtype);
        },
};

}  // namespace tandem::models
