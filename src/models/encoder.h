// Language models that fill in masked words, after BERT (Devlin et al., 2018): embeddings of
// tokens, positions and segments, transformer layers with the norm after the residual, and an LM
// head tied to the token embedding's table.
#pragma once

#include <cstdint>
#include <vector>

#include "models/blocks.h"
#include "models/model.h"

namespace tandem::models {

struct Encoder {
  const ops::OpSpec* activation = nullptr;  // null: GELU
  NormOptions norm = {NormKind::kLayer, 1e-12};
  std::int64_t positions = 512;  // rows of the position table; more for a longer sequence
};

struct EncoderSizes {
  std::int64_t layers, hidden, heads, ffn, vocab, types, seq;
};

// Returns "layers", "hidden", ... with these defaults.
std::vector<Hyperparameter> encoder_hyperparameters(const EncoderSizes& sizes);

graph::Graph build_encoder(const Encoder& encoder, const Settings& settings, std::int64_t batch,
                           DType dtype);

}  // namespace tandem::models
