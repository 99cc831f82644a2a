// Hugging Face's config.json: the hyperparameters of a network of a known family, as a model like
// the built-in ones. GPT-2, LLaMA, Mistral, Mixtral, BERT and OPT.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace tandem::import {

// Is the text such a file: a JSON object with a "model_type"?
bool is_config(std::string_view text);

// Throws UserError that names `source` and the key: "config.json: 'hidden_size' is missing".
std::shared_ptr<const models::ModelSpec> read_config(std::string_view text,
                                                     const std::string& source);

// What such a file says that the network of a sequence length does not have: a window of attention
// that is shorter, a quantization.
std::vector<std::string> config_notes(std::string_view text, const std::string& source,
                                      std::int64_t seq);

}  // namespace tandem::import
