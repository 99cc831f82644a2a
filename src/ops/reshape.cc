// Other shapes of the same elements in the same order. Both shapes are split at every boundary
// between dimensions of either, and the pieces are the factors:
//   [6, 4] -> [2, 3, 4] is "(a:2 b) c -> a b c"
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"
#include "ops/trial.h"

namespace tandem::ops {

namespace {

// Returns the number of elements behind each boundary of a shape, from the last dimension on: [2,
// 3, 4] -> {1, 4, 12, 24}.
std::vector<std::int64_t> list_boundaries(const Shape& shape) {
  std::vector<std::int64_t> out = {1};
  for (std::size_t d = shape.rank(); d-- > 0;) out.push_back(out.back() * shape[d]);
  return out;
}

// A factor that both shapes share.
struct ReshapePiece {
  std::string name;
  std::int64_t size = 1;
  std::int64_t behind = 1;  // number of elements behind the piece
};

// Returns the pieces of both shapes, the major one first. Returns nullopt in a trial if they do not
// fit.
std::optional<std::vector<ReshapePiece>> find_common_pieces(const Shape& from, const Shape& to) {
  auto cuts = list_boundaries(from);
  const auto others = list_boundaries(to);
  cuts.insert(cuts.end(), others.begin(), others.end());
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<ReshapePiece> out;
  for (std::size_t i = cuts.size() - 1; i > 0; --i) {
    if (cuts[i] % cuts[i - 1] != 0) {
      if (Trial::is_on()) return std::nullopt;
      reject(fmt::format("cannot reshape {} to {}: their dimensions have no common split",
                         to_text(from), to_text(to)),
             fmt::format("reshape to one dimension first: reshape shape=[{}]", from.count()));
    }
    out.push_back(
        {std::string(1, static_cast<char>('a' + out.size())), cuts[i] / cuts[i - 1], cuts[i - 1]});
  }
  return out;
}

// Returns the index text of `shape`: "(a:2 b) c". With `with_sizes`, it includes the sizes that the
// shape's dimensions do not determine.
std::string format_dims(const Shape& shape, const std::vector<ReshapePiece>& pieces,
                        bool with_sizes) {
  Names out;
  std::int64_t behind = shape.count();
  for (auto size : shape) {
    const auto end = behind;
    behind /= size;
    Names own;
    for (const auto& p : pieces) {
      if (p.behind < behind || p.behind >= end) continue;
      const bool last = p.behind == behind;
      own.push_back(with_sizes && !last ? fmt::format("{}:{}", p.name, p.size) : p.name);
    }
    if (own.empty()) {
      out.emplace_back("0");
    } else {
      out.push_back(own.size() == 1 ? own[0] : fmt::format("({})", join(own, " ")));
    }
  }
  return join(out, " ");
}

std::string regroup(const Shape& from, const Shape& to) {
  const auto pieces = find_common_pieces(from, to);
  if (!pieces) return {};
  return fmt::format("{} -> {}", format_dims(from, *pieces, true), format_dims(to, *pieces, false));
}

// Returns `sizes` with a -1 replaced by the remaining size of `from`. Returns nullopt in a trial if
// that does not fit.
std::optional<Shape> resolve_shape(const Sizes& sizes, const Shape& from) {
  const auto count = from.count();
  const auto bad = [&](const std::string& why) {
    reject(fmt::format("shape {} {}", tandem::attribute_text(sizes), why));
  };
  if (sizes.size() > Shape::kMaxRank) {
    bad(fmt::format("has {} dimensions, but may have at most {}", sizes.size(), Shape::kMaxRank));
  }
  if (std::ranges::count(sizes, -1) > 1) bad("has more than one -1");
  std::int64_t known = 1;
  for (auto size : sizes) {
    if (size == -1) continue;
    if (size < 1) bad(fmt::format("has a dimension of size {}", size));
    if (known > count / size) known = 0;  // 0 marks too many elements
    known *= size;
  }
  const bool open = std::ranges::count(sizes, -1) == 1;
  if (known == 0 || (open ? count % known != 0 : known != count)) {
    if (Trial::is_on()) return std::nullopt;
    bad(fmt::format("does not have the {} elements of {}", count, to_text(from)));
  }
  Shape out;
  for (auto size : sizes) out.push_back(size == -1 ? count / known : size);
  return out;
}

std::string flatten_index(const Flatten& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  check_range("axis", a.axis, 0, static_cast<std::int64_t>(in[0].rank()));
  Shape to = {1, 1};
  for (std::size_t d = 0; d < in[0].rank(); ++d) {
    to[static_cast<std::int64_t>(d) < a.axis ? 0 : 1] *= in[0][d];
  }
  return regroup(in[0], to);
}

}  // namespace

const OpSpec kReshape = define_op<Reshape>({
    .name = "reshape",
    .doc = "out = the same elements in the same order in `shape`; a size of -1 is inferred",
    .index = "a (b:4 c) -> (a b) c",
    .kernel = "reshape",
    .onnx = {"Reshape"},
    .index_text =
        [](const Reshape& a, std::span<const Shape> in) {
          check_inputs(in, 1, 1);
          const auto to = resolve_shape(a.shape, in[0]);
          return to ? regroup(in[0], *to) : std::string();
        },
    .meaning = [](const auto&, std::span<const Shape>) { return term::input(0); },
});

const OpSpec kFlatten = define_op<Flatten>({
    .name = "flatten",
    .doc = "flattens all dimensions before `axis` into one, and all others into one",
    .index = "a b c -> a (b c)",
    .kernel = "reshape",
    .onnx = {"Flatten"},
    .index_text = flatten_index,
    .meaning = [](const auto&, std::span<const Shape>) { return term::input(0); },
});

}  // namespace tandem::ops
