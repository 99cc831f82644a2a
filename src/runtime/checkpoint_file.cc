#include "runtime/checkpoint_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "tensor/dense.h"

namespace tandem::runtime {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

constexpr std::string_view kHeader = "tandem checkpoint 1 ";
constexpr std::string_view kDirectory = "step-";

std::string to_hex(Hash h) { return fmt::format("{:016x}", h); }

std::optional<Hash> parse_hex(std::string_view text) {
  Hash out = 0;
  const auto end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out, 16);
  if (error != std::errc() || at != end) return std::nullopt;
  return out;
}

std::vector<std::int64_t> to_vector(const Shape& shape) { return {shape.begin(), shape.end()}; }
Shape parse_shape(const Json& json) {
  const auto sizes = json.get<std::vector<std::int64_t>>();
  if (sizes.size() > Shape::kMaxRank) throw std::runtime_error("rank");
  return Shape(sizes);
}

DType parse_dtype(const Json& json) {
  DType type{};
  if (!parse_attribute(json.get<std::string>(), type)) throw std::runtime_error("dtype");
  return type;
}

Hash compute_checksum(std::string_view text) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.value();
}

Manifest from_json(const Json& json) {
  Manifest out;
  out.step = json.at("step");
  out.seed = json.at("seed");
  out.rate = json.at("rate");
  out.model = json.at("model");
  out.batch = json.at("batch");
  out.graph = parse_hex(json.at("graph").get<std::string>()).value();
  out.optimizer = json.at("optimizer");
  out.plan = json.at("plan");
  if (json.contains("data")) out.data = json.at("data").get<std::string>();
  for (const auto& t : json.at("tensors")) {
    out.tensors.push_back({t.at("name"), parse_shape(t.at("sizes")), parse_dtype(t.at("dtype"))});
  }
  for (const auto& p : json.at("pieces")) {
    out.pieces.push_back({.tensor = p.at("tensor"),
                          .box = {parse_shape(p.at("offset")), parse_shape(p.at("shape"))},
                          .file = p.at("file"),
                          .at = p.at("at"),
                          .bytes = p.at("bytes"),
                          .checksum = parse_hex(p.at("checksum").get<std::string>()).value()});
  }
  return out;
}

}  // namespace

void Checksum::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    Hash word = 0;
    const auto n = std::min<std::size_t>(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), n);
    hash_ = hash_combine(hash_, word);
    bytes = bytes.subspan(n);
  }
}

std::optional<TensorBox> intersect(const TensorBox& a, const TensorBox& b) {
  TensorBox out = a;
  for (std::size_t d = 0; d < a.shape.rank(); ++d) {
    const auto end = std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]);
    out.offset[d] = std::max(a.offset[d], b.offset[d]);
    out.shape[d] = end - out.offset[d];
    if (out.shape[d] <= 0) return std::nullopt;
  }
  return out;
}

// --- The manifest -------------------------------------------------------------------------------

std::string to_text(const Manifest& manifest) {
  Json tensors = Json::array();
  for (const auto& t : manifest.tensors) {
    tensors.push_back({{"name", t.name}, {"sizes", to_vector(t.sizes)}, {"dtype", name(t.dtype)}});
  }
  Json pieces = Json::array();
  for (const auto& p : manifest.pieces) {
    pieces.push_back({{"tensor", p.tensor},
                      {"offset", to_vector(p.box.offset)},
                      {"shape", to_vector(p.box.shape)},
                      {"file", p.file},
                      {"at", p.at},
                      {"bytes", p.bytes},
                      {"checksum", to_hex(p.checksum)}});
  }
  Json json = {{"step", manifest.step},
               {"seed", manifest.seed},
               {"rate", manifest.rate},
               {"model", manifest.model},
               {"batch", manifest.batch},
               {"graph", to_hex(manifest.graph)},
               {"optimizer", manifest.optimizer},
               {"plan", manifest.plan},
               {"tensors", tensors},
               {"pieces", pieces}};
  if (manifest.data) json["data"] = *manifest.data;
  const auto text = json.dump();
  return fmt::format("{}{}\n{}\n", kHeader, to_hex(compute_checksum(text)), text);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  const auto damaged = [&](const std::string& how) {
    return UserError("checkpoint", path, how,
                     "remove the directory of this checkpoint to use an older one");
  };
  if (!text.starts_with(kHeader)) throw damaged("is not a manifest of this format");
  const auto line = text.find('\n');
  if (line == std::string::npos || text.back() != '\n') throw damaged("is truncated");
  const auto sum = parse_hex(std::string_view(text).substr(kHeader.size(), line - kHeader.size()));
  const auto body = std::string_view(text).substr(line + 1, text.size() - line - 2);
  if (sum != compute_checksum(body)) throw damaged("is damaged: its checksum does not match");
  // The checksum matches, so another version wrote this text.
  try {
    return from_json(Json::parse(body));
  } catch (const std::exception&) {
    throw UserError("checkpoint", path, "is intact, but was written by another version of tandem",
                    "read it with the version that wrote it");
  }
}

fs::path get_step_directory(const fs::path& checkpoints, std::int64_t step) {
  return checkpoints / fmt::format("{}{}", kDirectory, step);
}

std::vector<std::int64_t> list_complete_steps(const fs::path& checkpoints) {
  std::vector<std::int64_t> out;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(checkpoints, failed)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(kDirectory)) continue;
    if (const auto step = parse_int(std::string_view(name).substr(kDirectory.size()))) {
      out.push_back(*step);
    }
  }
  std::ranges::sort(out);
  return out;
}

fs::path get_unfinished_directory(const fs::path& checkpoint) {
  return checkpoint.string() + ".new";
}
fs::path get_old_directory(const fs::path& checkpoint) { return checkpoint.string() + ".old"; }

void remove_leftovers(const fs::path& checkpoints) {
  std::vector<fs::path> left;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(checkpoints, failed)) {
    const auto ending = entry.path().extension();
    if (ending != get_unfinished_directory("").native() && ending != get_old_directory("").native())
      continue;
    const auto name = entry.path().stem().string();
    if (!name.starts_with(kDirectory)) continue;
    if (parse_int(std::string_view(name).substr(kDirectory.size()))) left.push_back(entry.path());
  }
  for (const auto& path : left) fs::remove_all(path, failed);
}

Manifest read_manifest(const fs::path& directory) {
  const auto path = directory / "manifest";
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError("checkpoint", path.string(), "cannot be read");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_manifest(text, path.string());
}

// --- Files --------------------------------------------------------------------------------------

File::File(int descriptor, fs::path path) : descriptor_(descriptor), path_(std::move(path)) {
  if (descriptor_ < 0) fail(std::strerror(errno));
}
File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}
File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File File::create(const fs::path& path) {
  return {::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644), path};
}
File File::open(const fs::path& path) { return {::open(path.c_str(), O_RDONLY | O_CLOEXEC), path}; }

void File::fail(const std::string& what) const {
  throw UserError("checkpoint", path_.string(), what);
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(fmt::format("cannot be written: {}", std::strerror(errno)));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void File::finish() {
  if (::fsync(descriptor_) != 0) fail(fmt::format("cannot be written: {}", std::strerror(errno)));
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    fail(fmt::format("cannot be written: {}", std::strerror(errno)));
  }
}

std::int64_t File::size() const {
  struct stat about {};
  if (::fstat(descriptor_, &about) != 0) fail(std::strerror(errno));
  return about.st_size;
}

void File::read(std::int64_t at, std::span<std::byte> into) const {
  while (!into.empty()) {
    const auto n = ::pread(descriptor_, into.data(), into.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(fmt::format("cannot be read: {}", std::strerror(errno)));
    if (n == 0) fail("is truncated");
    into = into.subspan(static_cast<std::size_t>(n));
    at += n;
  }
}

// The lock file is never deleted: that could take it away from a run that has just opened it.
DirectoryLock::DirectoryLock(const fs::path& directory)
    : descriptor_(::open((directory / "lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {
  const auto fail = [&](const std::string& what, const std::string& hint) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw UserError("checkpoint", directory.string(), what, hint);
  };
  if (descriptor_ < 0) fail(fmt::format("cannot be locked: {}", std::strerror(errno)), "");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) {
    fail("is in use by another run", "wait until that run ends, or use another directory");
  }
  // Some network file systems have no locks. The user must then make sure that only one run writes.
  if (errno != ENOLCK && errno != EOPNOTSUPP && errno != EINVAL) {
    fail(fmt::format("cannot be locked: {}", std::strerror(errno)), "");
  }
}

DirectoryLock::~DirectoryLock() { ::close(descriptor_); }

void flush_directory(const fs::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  errno = 0;
  // Some network file systems cannot flush a directory, and return EINVAL.
  const bool done = descriptor >= 0 && (::fsync(descriptor) == 0 || errno == EINVAL);
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!done) throw UserError("checkpoint", directory.string(), std::strerror(error));
}

std::int64_t copy_overlap(const File& file, std::int64_t at, const TensorBox& from,
                          const TensorBox& to, std::int64_t element_bytes, std::byte* elements) {
  const auto shared = intersect(from, to);
  if (!shared) return 0;
  // A run is adjacent in both boxes: the innermost dimensions that both share whole, and the one
  // before them. Example: [2, 4] of [2, 4] and [3, 4] -> one run of 8.
  Shape runs = shared->shape;
  std::int64_t run = 1;
  for (std::size_t d = runs.rank(); d-- > 0;) {
    run *= shared->shape[d];
    runs[d] = 1;
    if (from.shape[d] != shared->shape[d] || to.shape[d] != shared->shape[d]) break;
  }
  for_each_index(runs, [&](const Shape& index) {
    Shape in_from = index;
    Shape in_to = index;
    for (std::size_t d = 0; d < index.rank(); ++d) {
      in_from[d] += shared->offset[d] - from.offset[d];
      in_to[d] += shared->offset[d] - to.offset[d];
    }
    file.read(at + compute_flat_index(from.shape, in_from) * element_bytes,
              {elements + compute_flat_index(to.shape, in_to) * element_bytes,
               static_cast<std::size_t>(run * element_bytes)});
  });
  return shared->shape.count();
}

}  // namespace tandem::runtime
