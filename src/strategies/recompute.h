// The kinds of recomputation (activation checkpointing) that a strategy may choose, and their text
// forms.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::strategies {

// Operators that are recomputed for the backward pass instead of being saved for it.
enum class Recompute : std::uint8_t {
  kNone,
  kSelective,    // results that grow with the square of a sequence
  kSaveMatmuls,  // layers, without fused attention and a layer's first, third, ... matmul
  kFull,         // the insides of layers, which are identified by the numbers in node names
};

inline constexpr std::array kRecomputations = {Recompute::kNone, Recompute::kSelective,
                                               Recompute::kSaveMatmuls, Recompute::kFull};

// Returns "none", "selective", "save_matmuls" or "full".
constexpr std::string_view name(Recompute recompute) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "selective", "save_matmuls", "full"};
  return kNames.at(static_cast<std::size_t>(recompute));
}

// Returns the kind that `text` names; "products", from older plans, names kSaveMatmuls. Returns
// nullopt for any other text.
constexpr std::optional<Recompute> parse_recompute(std::string_view text) {
  if (text == "products") return Recompute::kSaveMatmuls;
  for (const auto recompute : kRecomputations) {
    if (text == name(recompute)) return recompute;
  }
  return std::nullopt;
}

}  // namespace tandem::strategies
