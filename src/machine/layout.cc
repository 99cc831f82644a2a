#include "machine/layout.h"

namespace tandem::machine {

char DigitRole::text() const {
  if (is_dim()) return static_cast<char>('0' + code_);
  if (*this == kReplica) return 'r';
  if (*this == kPartial) return 'p';
  return place() == 0 ? '.' : static_cast<char>('A' + place() - 1);
}

std::optional<DigitRole> DigitRole::parse(char c) {
  if (c >= '0' && c < static_cast<char>('0' + Shape::kMaxRank)) {
    return dim(static_cast<std::size_t>(c - '0'));
  }
  if (c >= 'A' && c <= 'Z') return idle(c - 'A' + 1);
  switch (c) {
    case 'r':
      return kReplica;
    case 'p':
      return kPartial;
    case '.':
      return kIdle;
    default:
      return std::nullopt;
  }
}

DigitMask Layout::digits(DigitRole role) const {
  DigitMask mask = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (roles_[i] == role) mask |= DigitMask{1} << i;
  }
  return mask;
}

DigitMask Layout::idle() const {
  DigitMask mask = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (roles_[i].is_idle()) mask |= DigitMask{1} << i;
  }
  return mask;
}

Hash Layout::hash() const {
  Hash h = count_;
  for (std::size_t i = 0; i < count_; ++i) {
    h = hash_combine(h, static_cast<Hash>(static_cast<unsigned char>(roles_[i].text())));
  }
  return h;
}

std::string to_text(const Layout& layout) {
  std::string out;
  for (std::size_t i = 0; i < layout.count(); ++i) out += layout[i].text();
  return out;
}

std::optional<Layout> parse_layout(std::string_view text) {
  if (text.size() > Digits::kMax) return std::nullopt;
  Layout out(text.size(), DigitRole::kIdle);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto role = DigitRole::parse(text[i]);
    if (!role) return std::nullopt;
    out.set(i, *role);
  }
  return out;
}

Layout to_gradient_layout(const Layout& layout) {
  Layout out = layout;
  for (std::size_t i = 0; i < layout.count(); ++i) {
    if (layout[i] == DigitRole::kReplica) out.set(i, DigitRole::kPartial);
    if (layout[i] == DigitRole::kPartial) out.set(i, DigitRole::kReplica);
  }
  return out;
}

std::optional<ParallelShape> compute_parallel_shape(const Layout& layout, const Shape& sizes,
                                                    const Digits& digits) {
  CHECK(layout.count() == digits.count(), to_text(layout));
  ParallelShape out(sizes);
  for (std::size_t i = 0; i < layout.count(); ++i) {
    const auto role = layout[i];
    const auto size = digits[i].size;
    if (role == DigitRole::kReplica) out.replicas *= size;
    if (role == DigitRole::kPartial) out.partial *= size;
    if (role.is_idle() && role.place() >= size) return std::nullopt;
    if (!role.is_dim()) continue;
    if (role.dim() >= sizes.rank()) return std::nullopt;
    auto& degree = out.degrees[role.dim()];
    degree *= size;
    if (sizes[role.dim()] % degree != 0) return std::nullopt;
  }
  return out;
}

IndexRange compute_range(const Layout& layout, const Digits& digits, std::int64_t slot,
                         std::size_t dim, std::int64_t extent) {
  const auto mask = layout.digits(DigitRole::dim(dim));
  const auto size = extent / digits.group_size(mask);
  return {digits.rank_in_group(slot, mask) * size, size};
}

std::int64_t compute_place_rank(const Layout& layout, DigitMask mask, const Digits& digits) {
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if ((mask >> i & 1U) == 0) continue;
    rank = rank * digits[i].size + (layout[i].is_idle() ? layout[i].place() : 0);
  }
  return rank;
}

bool holds_shard(const Layout& layout, const Digits& digits, std::int64_t slot) {
  for (std::size_t i = 0; i < layout.count(); ++i) {
    if (layout[i].is_idle() && digits.coordinate(slot, i) != layout[i].place()) return false;
  }
  return true;
}

}  // namespace tandem::machine
