// The flags of a job (cli/command.h), and the options of a search that they set.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"

namespace tandem::cli {

// Returns the dimensions that --dims names; all if `text` is empty.
search::Dims parse_dims(const std::string& text);

// Throws UserError if flags of the search contradict each other.
void check_flags_agree(const Job& job, const search::Options& options);

// Sets the options of `out` that control the search itself.
void set_search_options(const Job& job, search::Options& out);

// Returns the options of --search unity, or nullopt for other searches. Throws UserError for flags
// that this search does not support.
std::optional<unity::UnityOptions> make_unity_options(const Job& job, search::Options& search);

}  // namespace tandem::cli
