// The files of a checkpoint: what is on disk, and how it gets there without ever being half there.
//
//   DIR/step-20/rank-0, rank-1, ...   the elements of pieces of tensors, one after another
//   DIR/step-20/manifest              "tandem checkpoint 1 CHECKSUM", a line of JSON: which
//   tensors,
//                                     which box of each is where, with checksums; what was trained
//
// A checkpoint is written into DIR/step-20.new, all of it made to reach the disk, and then renamed;
// what is no longer needed is DIR/step-20.old until it is gone: a folder without either is
// complete. Pieces say what they are by global index, so that any plan on any number of devices can
// read them.
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

// Of words of 8 bytes; only the last call may have a number of bytes that 8 does not divide.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] Hash value() const { return hash_; }

 private:
  Hash hash_ = 0;
};

// A part of a tensor, as large as `shape`, whose first element is at `offset`.
struct Box {
  Shape offset;
  Shape shape;
};

// What two boxes of one tensor share; nothing where that is nothing.
std::optional<Box> intersection(const Box& a, const Box& b);

struct Piece {
  std::string tensor;
  Box box;
  std::int64_t file = 0;  // the rank that wrote it
  std::int64_t at = 0;    // bytes before it
  std::int64_t bytes = 0;
  Hash checksum = 0;
};

struct Manifest {
  struct Tensor {
    std::string name;
    Shape sizes;
    DType dtype = DType::kFp32;
    bool operator==(const Tensor&) const = default;
  };
  std::int64_t step = 0;  // how many were done
  std::uint64_t seed = 0;
  double rate = 0;
  std::string model;  // as on the command line
  std::int64_t batch = 0;
  Hash graph = 0;  // identity of the model's graph
  std::string optimizer;
  std::string plan;  // "dp on local:2"; for people
  // What it was trained on: data::Dataset::identity, or empty for random numbers; not known of
  // older checkpoints.
  std::optional<std::string> data = {};
  std::vector<Tensor> tensors;
  std::vector<Piece> pieces;
};

std::string to_text(const Manifest& manifest);
// Throws UserError naming `path` where the text is not what `to_text` made.
Manifest parse_manifest(const std::string& text, const std::string& path);

// DIR/step-20
std::filesystem::path folder_of(const std::filesystem::path& checkpoints, std::int64_t step);
// What it is called while it is written, and while it is removed.
std::filesystem::path unfinished_of(const std::filesystem::path& checkpoint);
std::filesystem::path old_of(const std::filesystem::path& checkpoint);
// Removes what runs that were killed left of either.
void remove_leftovers(const std::filesystem::path& checkpoints);
// By step, those that are complete.
std::vector<std::int64_t> complete_steps(const std::filesystem::path& checkpoints);
// Throws UserError.
Manifest read_manifest(const std::filesystem::path& folder);

// A new file, open for writing or reading. What fails is a UserError that says why: "no space left
// on device".
class File {
 public:
  static File create(const std::filesystem::path& path);
  static File open(const std::filesystem::path& path);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  void write(std::span<const std::byte> bytes);
  // Everything written has reached the disk. Closes the file.
  void finish();

  [[nodiscard]] std::int64_t size() const;
  void read(std::int64_t at, std::span<std::byte> into) const;

 private:
  File(int descriptor, std::filesystem::path path);
  [[noreturn]] void fail(const std::string& what) const;
  int descriptor_;
  std::filesystem::path path_;
};

// A folder that no other run writes to as long as this lives: the system forgets the lock with the
// process, however that ends. UserError where another run has it.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

// That files were made in or renamed in this folder has reached the disk.
void finish_folder(const std::filesystem::path& folder);

// Copies what `from`, which lies at byte `at` of the file, and `to` share into `elements`, the
// elements of `to`. Returns how many elements.
std::int64_t copy_shared(const File& file, std::int64_t at, const Box& from, const Box& to,
                         std::int64_t element_bytes, std::byte* elements);

}  // namespace tandem::runtime
