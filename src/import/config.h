// Reads Hugging Face's config.json, which holds the hyperparameters of a network of a known family:
// GPT-2, LLaMA, Mistral, Mixtral, BERT or OPT. The result is a model like the built-in ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace tandem::import {

// Returns whether `text` is such a file: a JSON object with a "model_type".
bool is_config(std::string_view text);

// Returns the model that `text` describes. Throws UserError that names `source` and the key:
// "config.json: 'hidden_size' is missing".
std::shared_ptr<const models::ModelSpec> read_config(std::string_view text,
                                                     const std::string& source);

// Returns one note for each property in `text` that the network of sequence length `seq` does not
// have: a shorter attention window, or a quantization.
std::vector<std::string> list_config_notes(std::string_view text, const std::string& source,
                                           std::int64_t seq);

}  // namespace tandem::import
