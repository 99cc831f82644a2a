// The files of a checkpoint, and how they get to disk without ever being half written.
//
//   DIR/step-20/rank-0, rank-1, ...  the elements of pieces of tensors, one after another
//   DIR/step-20/manifest             "tandem checkpoint 1 CHECKSUM" and a line of JSON:
//                                    the tensors, the file and checksum of each piece,
//                                    and what was trained
//
// A checkpoint is written to DIR/step-20.new, flushed to disk, and then renamed. A checkpoint to be
// deleted is renamed to DIR/step-20.old first. A directory without either suffix is therefore
// complete. Pieces are described by global index, so any plan on any number of devices can read
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tandem::runtime {

// Checksum over 8-byte words. Only the last call of `add` may pass a number of bytes that
// is not a multiple of 8.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] Hash value() const { return hash_; }

 private:
  Hash hash_ = 0;
};

// A part of a tensor: its sizes are `shape`, and its first element is at `offset`.
struct TensorBox {
  Shape offset;
  Shape shape;
};

// Returns the box that `a` and `b` of one tensor share, or nullopt if they are disjoint.
std::optional<TensorBox> intersect(const TensorBox& a, const TensorBox& b);

// A box of a tensor as one rank has written it to its file.
struct CheckpointPiece {
  std::string tensor;
  TensorBox box;
  std::int64_t file = 0;  // Rank that wrote it
  std::int64_t at = 0;    // Byte offset in the file
  std::int64_t bytes = 0;
  Hash checksum = 0;
};

// The description of a checkpoint.
struct Manifest {
  struct ManifestTensor {
    std::string name;
    Shape sizes;
    DType dtype = DType::kFp32;
    bool operator==(const ManifestTensor&) const = default;
  };
  std::int64_t step = 0;  // Number of steps done
  std::uint64_t seed = 0;
  double rate = 0;
  std::string model;  // Text from the command line
  std::int64_t batch = 0;
  Hash graph = 0;  // Identity hash of the model's graph
  std::string optimizer;
  std::string plan;  // For people, e.g. "dp on local:2"
  // Identity of the training data (data::Dataset::identity), or empty for random numbers. Older
  // checkpoints do not have it.
  std::optional<std::string> data = {};
  std::vector<ManifestTensor> tensors;
  std::vector<CheckpointPiece> pieces;
};

std::string to_text(const Manifest& manifest);
// Parses what `to_text` returned. Throws UserError with `path` if the text is damaged or of another
// format.
Manifest parse_manifest(const std::string& text, const std::string& path);

// Returns the directory of the checkpoint after `step` steps: DIR/step-20.
std::filesystem::path get_step_directory(const std::filesystem::path& checkpoints,
                                         std::int64_t step);
// Returns the name of the checkpoint's directory while it is written (get_unfinished_directory) or
// deleted (get_old_directory).
std::filesystem::path get_unfinished_directory(const std::filesystem::path& checkpoint);
std::filesystem::path get_old_directory(const std::filesystem::path& checkpoint);
// Deletes the unfinished and old directories that killed runs have left.
void remove_leftovers(const std::filesystem::path& checkpoints);
// Returns the steps of all complete checkpoints in ascending order.
std::vector<std::int64_t> list_complete_steps(const std::filesystem::path& checkpoints);
// Throws UserError if the manifest cannot be read or is damaged.
Manifest read_manifest(const std::filesystem::path& directory);

// A file of a checkpoint. Every failure throws a UserError with the reason, such as "no space left
// on device".
class File {
 public:
  // Creates a new file for writing.
  static File create(const std::filesystem::path& path);
  static File open(const std::filesystem::path& path);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  void write(std::span<const std::byte> bytes);
  // Flushes all written data to disk and closes the file.
  void finish();

  [[nodiscard]] std::int64_t size() const;
  // Reads into.size() bytes from byte `at` on.
  void read(std::int64_t at, std::span<std::byte> into) const;

 private:
  File(int descriptor, std::filesystem::path path);
  [[noreturn]] void fail(const std::string& what) const;
  int descriptor_;
  std::filesystem::path path_;
};

// A lock on a directory, so that no other run writes to it. The system releases the lock when the
// process ends, however it ends. The constructor throws UserError if another run has the lock.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_;
};

// Flushes the directory entry to disk: files created or renamed in `directory`.
void flush_directory(const std::filesystem::path& directory);

// Copies the elements that `from` and `to` share. `from` starts at byte `at` of the file;
// `elements` holds the elements of `to`. Returns the number of elements copied.
std::int64_t copy_overlap(const File& file, std::int64_t at, const TensorBox& from,
                          const TensorBox& to, std::int64_t element_bytes, std::byte* elements);

}  // namespace tandem::runtime
