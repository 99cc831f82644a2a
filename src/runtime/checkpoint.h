// Checkpoints of a run: the weights and the optimizer state. All processes write a checkpoint
// together. Any number of processes can read it back under any plan of the same model.
// runtime/checkpoint_file.h describes the files.
#pragma once

#include <filesystem>
#include <optional>

#include "plan/plan.h"
#include "runtime/checkpoint_file.h"
#include "runtime/executor.h"
#include "runtime/world.h"

namespace tandem::runtime {

// Reads and writes the checkpoints of one run. All processes call the same functions in the same
// order. If one process fails, all throw Failed, and the files on disk stay as they were.
class Checkpoints {
 public:
  // Locks `directory` until destruction. If `resume` is false, it must contain no
  // checkpoint; if true, it must exist. `plan` and `program` must outlive this object.
  Checkpoints(std::filesystem::path directory, bool resume, const World& world,
              const plan::Plan& plan, const lower::Program& program);

  // Returns the manifest of the newest checkpoint, or nullopt if there is none. Throws Failed if it
  // is of another model or damaged.
  std::optional<Manifest> find_newest();
  // Throws Failed if the checkpoint was trained on other data than `data`, an identity as in
  // Manifest::data.
  void check_data(const Manifest& manifest, const std::string& data) const;
  // Loads the checkpoint's tensors into `executor`.
  void load(const Manifest& manifest, Executor& executor) const;

  // Saves a checkpoint after `step` steps, and deletes all but the two newest.
  void save(std::int64_t step, const TrainingOptions& training, Executor& executor) const;

 private:
  // A tensor that lasts from step to step: a weight ("w1") or its optimizer state ("w1 state 0").
  // If updates are delayed, also the weight before the last update ("w1 before").
  struct Lasting {
    std::string name;
    lower::BufferId buffer;
    bool before = false;
  };
  static at::Tensor& get_tensor(const Lasting& lasting, Executor& executor) {
    return lasting.before ? executor.get_next_step_version(lasting.buffer)
                          : executor.get_newest_version(lasting.buffer);
  }
  [[nodiscard]] TensorBox compute_shard_box(const lower::Buffer& buffer) const;
  [[nodiscard]] bool writes(std::size_t which) const;
  void check_model(const Manifest& manifest, const std::string& path) const;
  void check_pieces(const Manifest& manifest, const std::filesystem::path& directory) const;
  void fill_tensor(const Lasting& lasting, const Manifest& manifest, Executor& executor) const;
  std::vector<CheckpointPiece> write_pieces(const std::filesystem::path& path,
                                            Executor& executor) const;
  // Returns the pieces of all processes on the first process, and none on the others.
  [[nodiscard]] std::vector<CheckpointPiece> gather_pieces(
      const std::vector<CheckpointPiece>& mine) const;
  void publish(Manifest manifest, const std::filesystem::path& unfinished) const;

  std::filesystem::path directory_;
  std::optional<DirectoryLock> lock_;  // Set on the first process
  World world_;
  const plan::Plan& plan_;
  const lower::Program& program_;
  Hash graph_;
  std::vector<Lasting> lasting_;
};

}  // namespace tandem::runtime
