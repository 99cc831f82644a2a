#include "runtime/checkpoint.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace tandem::runtime {

namespace fs = std::filesystem;
using lower::Buffer;
using lower::BufferKind;
using machine::DigitRole;

namespace {

constexpr std::size_t kRetained = 2;
constexpr std::size_t kChunk = std::size_t{1} << 20U;

std::int64_t get_element_bytes(DType type) {
  return static_cast<std::int64_t>(get_element_size(type).value);
}

std::span<std::byte> as_byte_span(at::Tensor& t) {
  return {static_cast<std::byte*>(t.data_ptr()), static_cast<std::size_t>(t.nbytes())};
}

template <class T>
bool all_finite(const at::Tensor& t) {
  const auto* elements = t.data_ptr<T>();
  return std::all_of(elements, elements + t.numel(),
                     [](T x) { return std::isfinite(static_cast<double>(x)); });
}

bool is_finite(const at::Tensor& t) {
  if (t.scalar_type() == at::kDouble) return all_finite<double>(t);
  return t.scalar_type() == at::kBFloat16 ? all_finite<at::BFloat16>(t) : all_finite<float>(t);
}

void check_finite(const at::Tensor& t, const std::string& name) {
  if (is_finite(t)) return;
  throw UserError("runtime", name, "is not finite, so no checkpoint is written",
                  "try a smaller --lr");
}

// Describes a model for messages; `type` is the type of the weights.
std::string describe_model(const std::string& model, std::int64_t batch,
                           const std::string& optimizer, DType type) {
  return fmt::format("{}, batch {}, {}, {}", model, batch, optimizer, name(type));
}

Hash compute_checksum(const File& file, const CheckpointPiece& piece) {
  Checksum sum;
  std::vector<std::byte> chunk(kChunk);
  for (std::int64_t at = 0; at < piece.bytes; at += static_cast<std::int64_t>(kChunk)) {
    const auto n = std::min<std::int64_t>(piece.bytes - at, kChunk);
    const auto part = std::span(chunk).first(static_cast<std::size_t>(n));
    file.read(piece.at + at, part);
    sum.add(part);
  }
  return sum.value();
}

bool is_inside(const TensorBox& box, const Shape& sizes) {
  if (box.shape.rank() != sizes.rank() || box.offset.rank() != sizes.rank()) return false;
  for (std::size_t d = 0; d < sizes.rank(); ++d) {
    if (box.offset[d] < 0 || box.shape[d] < 1 || box.shape[d] > sizes[d] ||
        box.offset[d] > sizes[d] - box.shape[d]) {
      return false;
    }
  }
  return true;
}

const Manifest::ManifestTensor* find_tensor(const Manifest& manifest, const std::string& name) {
  const auto at = std::ranges::find(manifest.tensors, name, &Manifest::ManifestTensor::name);
  return at == manifest.tensors.end() ? nullptr : &*at;
}

// Returns the hash of the network as it was before it was rewritten for this plan.
Hash compute_model_hash(const plan::Plan& plan) {
  if (!plan.derivation.empty()) return plan.derivation.front().before;
  return graph::erase_parallelism(plan.mapped.pcg).identity_hash();
}

fs::path get_rank_file(const fs::path& directory, std::int64_t rank) {
  return directory / fmt::format("rank-{}", rank);
}

}  // namespace

Checkpoints::Checkpoints(fs::path directory, bool resume, const World& world,
                         const plan::Plan& plan, const lower::Program& program)
    : directory_(std::move(directory)),
      world_(world),
      plan_(plan),
      program_(program),
      graph_(compute_model_hash(plan)) {
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const auto& buffer = program.buffers[b];
    if (buffer.kind != BufferKind::kWeight) continue;
    const auto& name = program.pcg.node(buffer.node).name;
    lasting_.push_back({name, lower::BufferId(b)});
    if (program.versions(lower::BufferId(b)) > 1) {
      lasting_.push_back({fmt::format("{} before", name), lower::BufferId(b), true});
    }
  }
  for (const auto& task : program.tasks) {
    if (task.kind != lower::TaskKind::kUpdate) continue;
    for (std::size_t s = 2; s < task.reads.size(); ++s) {
      lasting_.push_back(
          {fmt::format("{} state {}", program.pcg.node(task.node).name, s - 2), task.reads[s]});
    }
  }
  run_on_first_rank(world_, [&] {
    std::error_code failed;
    if (resume && !fs::is_directory(directory_, failed)) {
      throw UserError("checkpoint", directory_.string(),
                      "does not exist, so training cannot resume from it",
                      "omit --resume to start from the beginning and create the directory");
    }
    fs::create_directories(directory_, failed);
    if (failed)
      throw UserError("checkpoint", directory_.string(), "cannot be created", failed.message());
    lock_.emplace(directory_);
    if (!resume && !list_complete_steps(directory_).empty()) {
      throw UserError("checkpoint", directory_.string(),
                      "already holds checkpoints, which are not overwritten",
                      "use --resume to continue from the newest one, or another directory");
    }
    remove_leftovers(directory_);
  });
}

TensorBox Checkpoints::compute_shard_box(const Buffer& buffer) const {
  TensorBox out{buffer.shard, buffer.shard};
  for (std::size_t d = 0; d < out.offset.rank(); ++d) {
    out.offset[d] =
        compute_range(buffer.layout, program_.digits, world_.rank, d, buffer.sizes[d]).offset;
  }
  return out;
}

// Returns whether this process writes the shard of tensor number `which`. One of the replicas of a
// shard writes it, a different one from tensor to tensor.
bool Checkpoints::writes(std::size_t which) const {
  const auto& buffer = program_.buffer(lasting_[which].buffer);
  if (!machine::holds_shard(buffer.layout, program_.digits, world_.rank)) return false;
  const auto copies = buffer.layout.digits(DigitRole::kReplica) & program_.digits.space();
  const auto writer = static_cast<std::int64_t>(which) % program_.digits.group_size(copies);
  return program_.digits.rank_in_group(world_.rank, copies) == writer;
}

// --- Reading ------------------------------------------------------------------------------------

namespace {

DType get_weight_type(const Manifest& manifest, DType of_nothing) {
  return manifest.tensors.empty() ? of_nothing : manifest.tensors[0].dtype;
}

}  // namespace

void Checkpoints::check_model(const Manifest& manifest, const std::string& path) const {
  const std::string optimizer(name(plan_.optimizer));
  bool same = manifest.graph == graph_ && manifest.optimizer == optimizer;
  for (const auto& [name, id, before] : lasting_) {
    const auto& buffer = program_.buffer(id);
    const auto* tensor = find_tensor(manifest, name);
    same =
        same && tensor != nullptr && tensor->sizes == buffer.sizes && tensor->dtype == buffer.dtype;
  }
  if (same) return;
  throw UserError("checkpoint", path,
                  fmt::format("is a checkpoint of another model ({}); this run trains {}",
                              describe_model(manifest.model, manifest.batch, manifest.optimizer,
                                             get_weight_type(manifest, plan_.dtype)),
                              describe_model(plan_.model, plan_.batch, optimizer, plan_.dtype)),
                  "use the model of the checkpoint, or another directory");
}

void Checkpoints::check_data(const Manifest& manifest, const std::string& data) const {
  run_on_first_rank(world_, [&] {
    if (!manifest.data || *manifest.data == data) return;
    const auto said = [](const std::string& d) { return d.empty() ? "random data" : d; };
    throw UserError("checkpoint", get_step_directory(directory_, manifest.step).string(),
                    fmt::format("is a checkpoint of a run on {}, but this run uses {}",
                                said(*manifest.data), said(data)),
                    "use the same --data (its path may differ), or another directory to start from "
                    "the beginning");
  });
}

// Checks every piece, each in one of the processes. Also checks that no file is longer than its
// pieces.
void Checkpoints::check_pieces(const Manifest& manifest, const fs::path& directory) const {
  const auto damaged = [&](const fs::path& path, const std::string& how) {
    return UserError(
        "checkpoint", path.string(), how,
        fmt::format("remove the directory '{}' to use an older checkpoint, if there is one",
                    directory.string()));
  };
  std::map<fs::path, std::uint64_t> ends;  // End of each file's last piece
  for (std::size_t p = 0; p < manifest.pieces.size(); ++p) {
    const auto& piece = manifest.pieces[p];
    const auto path = get_rank_file(directory, piece.file);
    const auto* tensor = find_tensor(manifest, piece.tensor);
    if (tensor == nullptr || !is_inside(piece.box, tensor->sizes) || piece.at < 0 ||
        piece.bytes != piece.box.shape.count() * get_element_bytes(tensor->dtype)) {
      throw damaged(
          path, fmt::format("cannot hold the piece of {} that the manifest lists", piece.tensor));
    }
    const auto end = static_cast<std::uint64_t>(piece.at) + static_cast<std::uint64_t>(piece.bytes);
    ends[path] = std::max(ends[path], end);
    if (p % static_cast<std::size_t>(world_.size) != static_cast<std::size_t>(world_.rank))
      continue;
    const auto file = File::open(path);
    if (file.size() - piece.bytes < piece.at) {
      throw damaged(path, fmt::format("is truncated after {} bytes", file.size()));
    }
    if (compute_checksum(file, piece) != piece.checksum) {
      throw damaged(path,
                    fmt::format("is damaged: the checksum of {} does not match", piece.tensor));
    }
  }
  for (const auto& [path, end] : ends) {
    if (static_cast<std::uint64_t>(File::open(path).size()) > end) {
      throw damaged(
          path, fmt::format("is damaged: it is longer than the {} bytes that were written", end));
    }
  }
}

std::optional<Manifest> Checkpoints::find_newest() {
  std::optional<Manifest> out;
  run_together(world_, [&] {
    const auto steps = list_complete_steps(directory_);
    if (steps.empty()) return;
    const auto directory = get_step_directory(directory_, steps.back());
    out = read_manifest(directory);
    if (out->step != steps.back()) {
      throw UserError(
          "checkpoint", directory.string(),
          fmt::format("is a checkpoint of step {}, so the directory was renamed", out->step));
    }
    check_model(*out, directory.string());
  });
  if (out)
    run_together(world_, [&] { check_pieces(*out, get_step_directory(directory_, out->step)); });
  return out;
}

void Checkpoints::fill_tensor(const Lasting& lasting, const Manifest& manifest,
                              Executor& executor) const {
  const auto& buffer = program_.buffer(lasting.buffer);
  const auto mine = compute_shard_box(buffer);
  auto& shard = get_tensor(lasting, executor);
  const bool in_place = shard.is_cpu() && shard.is_contiguous();
  auto here = in_place ? shard : at::empty(shard.sizes(), shard.options().device(at::kCPU));
  const auto size = get_element_bytes(buffer.dtype);
  std::int64_t elements = 0;
  for (const auto& piece : manifest.pieces) {
    if (piece.tensor != lasting.name || !intersect(piece.box, mine)) continue;
    const auto file =
        File::open(get_rank_file(get_step_directory(directory_, manifest.step), piece.file));
    elements += copy_overlap(file, piece.at, piece.box, mine, size, as_byte_span(here).data());
  }
  if (elements != mine.shape.count()) {
    throw UserError("checkpoint", get_step_directory(directory_, manifest.step).string(),
                    fmt::format("does not hold all of {}", lasting.name));
  }
  if (!in_place) shard.copy_(here);
}

void Checkpoints::load(const Manifest& manifest, Executor& executor) const {
  run_together(world_, [&] {
    for (const auto& lasting : lasting_) {
      if (executor.holds(lasting.buffer)) fill_tensor(lasting, manifest, executor);
    }
  });
}

// --- Writing ------------------------------------------------------------------------------------

std::vector<CheckpointPiece> Checkpoints::write_pieces(const fs::path& path,
                                                       Executor& executor) const {
  std::vector<CheckpointPiece> out;
  auto file = File::create(path);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < lasting_.size(); ++i) {
    if (!writes(i)) continue;
    auto shard = get_tensor(lasting_[i], executor).to(at::kCPU).contiguous();
    check_finite(shard, lasting_[i].name);
    const auto bytes = as_byte_span(shard);
    file.write(bytes);
    Checksum sum;
    sum.add(bytes);
    out.push_back({.tensor = lasting_[i].name,
                   .box = compute_shard_box(program_.buffer(lasting_[i].buffer)),
                   .file = world_.rank,
                   .at = at,
                   .bytes = static_cast<std::int64_t>(bytes.size()),
                   .checksum = sum.value()});
    at += out.back().bytes;
  }
  file.finish();
  return out;
}

std::vector<CheckpointPiece> Checkpoints::gather_pieces(
    const std::vector<CheckpointPiece>& mine) const {
  Manifest own;
  own.pieces = mine;
  const auto text = to_text(own);
  const int count = static_cast<int>(text.size());
  std::vector<int> counts(static_cast<std::size_t>(world_.size));
  MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> places;
  int total = 0;
  for (const auto c : counts) {
    places.push_back(total);
    total += c;
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  MPI_Gatherv(text.data(), count, MPI_CHAR, all.data(), counts.data(), places.data(), MPI_CHAR, 0,
              MPI_COMM_WORLD);
  std::vector<CheckpointPiece> out;
  if (world_.rank != 0) return out;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const auto one =
        all.substr(static_cast<std::size_t>(places[r]), static_cast<std::size_t>(counts[r]));
    auto pieces = parse_manifest(one, "manifest").pieces;
    std::ranges::move(pieces, std::back_inserter(out));
  }
  return out;
}

namespace {

// Deletes an old checkpoint. A failure does not end the run, because the new checkpoint exists
// already.
void discard(const fs::path& checkpoint) {
  // The rename comes first, so that a half-deleted checkpoint does not look like a checkpoint.
  const auto old = get_old_directory(checkpoint);
  std::error_code failed;
  fs::remove_all(old, failed);
  if (!failed) fs::rename(checkpoint, old, failed);
  if (!failed) fs::remove_all(old, failed);
  if (failed) {
    fmt::print(stderr, "note: cannot remove the old checkpoint {}: {}\n", checkpoint.string(),
               failed.message());
  }
}

}  // namespace

void Checkpoints::publish(Manifest manifest, const fs::path& unfinished) const {
  for (const auto& [name, id, before] : lasting_) {
    const auto& buffer = program_.buffer(id);
    manifest.tensors.push_back({name, buffer.sizes, buffer.dtype});
  }
  auto file = File::create(unfinished / "manifest");
  const auto text = to_text(manifest);
  file.write(std::as_bytes(std::span(text)));
  file.finish();
  flush_directory(unfinished);
  fs::rename(unfinished, get_step_directory(directory_, manifest.step));
  flush_directory(directory_);
  const auto steps = list_complete_steps(directory_);
  for (std::size_t i = 0; i + kRetained < steps.size(); ++i)
    discard(get_step_directory(directory_, steps[i]));
}

void Checkpoints::save(std::int64_t step, const TrainingOptions& training,
                       Executor& executor) const {
  const auto unfinished = get_unfinished_directory(get_step_directory(directory_, step));
  try {
    run_on_first_rank(world_, [&] {
      fs::remove_all(unfinished);  // Left by a killed run
      fs::create_directories(unfinished);
    });
    std::vector<CheckpointPiece> pieces;
    run_together(world_,
                 [&] { pieces = write_pieces(get_rank_file(unfinished, world_.rank), executor); });
    pieces = gather_pieces(pieces);
    run_on_first_rank(world_, [&] {
      publish({.step = step,
               .seed = training.seed,
               .rate = training.rate,
               .model = plan_.model,
               .batch = plan_.batch,
               .graph = graph_,
               .optimizer = std::string(name(plan_.optimizer)),
               .plan = fmt::format("{} on {}", plan_.strategy, plan_.machine),
               .data = training.data ? training.data->identity() : std::string(),
               .tensors = {},
               .pieces = std::move(pieces)},
              unfinished);
    });
  } catch (const Failed&) {
    std::error_code ignored;
    if (world_.rank == 0) fs::remove_all(unfinished, ignored);
    throw;
  }
}

}  // namespace tandem::runtime
