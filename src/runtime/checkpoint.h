// Checkpoints of a run: the weights and the optimizer's state, written by all processes together,
// read back by any number of processes under any plan of the same model. On disk:
// runtime/checkpoint_file.h.
#pragma once

#include <filesystem>
#include <optional>

#include "plan/plan.h"
#include "runtime/checkpoint_file.h"
#include "runtime/executor.h"
#include "runtime/world.h"

namespace tandem::runtime {

// All processes call the same functions in the same order. They throw Failed where one of them
// cannot; what was on disk is then as it was.
class Checkpoints {
 public:
  // Who starts anew wants a folder without checkpoints, who resumes one that is there; it is locked
  // as long as this lives. `plan` and `program` must outlive this.
  Checkpoints(std::filesystem::path folder, bool resume, const World& world, const plan::Plan& plan,
              const lower::Program& program);

  // What the newest checkpoint says of itself, checked to be of this model and undamaged; nothing
  // where there is none.
  std::optional<Manifest> find_newest();
  // Throws Failed where it was trained on other data; an identity as in a manifest.
  void check_data(const Manifest& manifest, const std::string& data) const;
  // Puts its tensors in place.
  void load(const Manifest& manifest, Executor& executor) const;

  // After `step` steps. The two newest are kept.
  void save(std::int64_t step, const Training& training, Executor& executor) const;

 private:
  // A weight, or state of one: "w1", "w1 state 0"; where updates are delayed, the weight before the
  // last update, too: "w1 before".
  struct Lasting {
    std::string name;
    lower::BufferId buffer;
    bool before = false;
  };
  static at::Tensor& tensor_of(const Lasting& lasting, Executor& executor) {
    return lasting.before ? executor.before(lasting.buffer) : executor.lasting(lasting.buffer);
  }
  [[nodiscard]] Box box_of(const lower::Buffer& buffer) const;
  [[nodiscard]] bool writes(std::size_t which) const;
  void check_model(const Manifest& manifest, const std::string& path) const;
  void check_pieces(const Manifest& manifest, const std::filesystem::path& folder) const;
  void fill(const Lasting& lasting, const Manifest& manifest, Executor& executor) const;
  std::vector<Piece> write_pieces(const std::filesystem::path& path, Executor& executor) const;
  // On the first process: those of all.
  [[nodiscard]] std::vector<Piece> gather(const std::vector<Piece>& mine) const;
  void publish(Manifest manifest, const std::filesystem::path& unfinished) const;

  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;  // on the first process
  World world_;
  const plan::Plan& plan_;
  const lower::Program& program_;
  Hash graph_;
  std::vector<Lasting> lasting_;
};

}  // namespace tandem::runtime
