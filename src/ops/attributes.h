// The attribute structs that other folders build operators with or look into.
// An operator whose attributes nobody else needs keeps them in its own file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "base/fields.h"
#include "tensor/tensor_type.h"

namespace tandem::ops {

enum class Activation : std::uint8_t { kNone, kRelu };
inline std::string attribute_text(Activation a) { return a == Activation::kRelu ? "relu" : "none"; }
inline bool parse_attribute(std::string_view text, Activation& out) {
  out = text == "relu" ? Activation::kRelu : Activation::kNone;
  return text == "relu" || text == "none";
}

// input, weight: the tensor they bring in, already laid out as its shape says.
struct Source {
  ParallelShape shape;
  DType dtype = DType::kFp32;
  std::int64_t below = 0;  // indices are in [0, below); 0 for real values
  bool operator==(const Source&) const = default;
  static constexpr auto fields =
      std::tuple{Field{"shape", &Source::shape}, Field{"dtype", &Source::dtype},
                 Field{"below", &Source::below}};
};

struct Linear {
  Activation act = Activation::kNone;
  bool operator==(const Linear&) const = default;
  static constexpr auto fields = std::tuple{Field{"act", &Linear::act}};
};

struct Contract {
  std::string index;  // "b s i, h d i -> b h s d"
  double scale = 1;
  bool operator==(const Contract&) const = default;
  static constexpr auto fields =
      std::tuple{Field{"index", &Contract::index}, Field{"scale", &Contract::scale}};
};

struct Concat {
  std::int64_t axis = 0;
  bool operator==(const Concat&) const = default;
  static constexpr auto fields = std::tuple{Field{"axis", &Concat::axis}};
};

struct LayerNorm {
  double eps = 1e-5;
  bool operator==(const LayerNorm&) const = default;
  static constexpr auto fields = std::tuple{Field{"eps", &LayerNorm::eps}};
};

// partition, combine
struct DimDegree {
  std::int64_t dim = 0;
  std::int64_t degree = 1;
  bool operator==(const DimDegree&) const = default;
  static constexpr auto fields =
      std::tuple{Field{"dim", &DimDegree::dim}, Field{"degree", &DimDegree::degree}};
};

// replicate, reduce, unreplicate
struct Degree {
  std::int64_t degree = 1;
  bool operator==(const Degree&) const = default;
  static constexpr auto fields = std::tuple{Field{"degree", &Degree::degree}};
};

}  // namespace tandem::ops
