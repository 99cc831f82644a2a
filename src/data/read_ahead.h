// Reads samples that take long in a thread of its own, before they are asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace tandem::data {

class ReadAhead {
 public:
  using Elements = std::vector<float>;
  using Made = std::shared_ptr<const Elements>;

  // `make` returns the elements of a sample; two threads call it.
  explicit ReadAhead(std::function<Elements(std::int64_t sample)> make);
  // Waits for the sample in progress.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Returns the elements of a sample. Waits for it if it is in progress, and prepares it here if it
  // has not been begun. Rethrows what `make` has thrown in either thread.
  Made get(std::int64_t sample);

  // Announces the samples that will be asked for next, in this order. Drops all others.
  void prefetch(std::span<const std::int64_t> samples);

 private:
  struct ReadAheadSample {
    bool is_started = false;
    Made elements = nullptr;
    std::exception_ptr failed = nullptr;
    [[nodiscard]] bool is_done() const { return elements != nullptr || failed != nullptr; }
  };
  using EntryPtr =
      std::shared_ptr<ReadAheadSample>;  // A dropped entry that was begun is still finished
  // Prepares a sample. Releases the lock `own` while it works, and acquires it again.
  void make(std::int64_t sample, const EntryPtr& entry, std::unique_lock<std::mutex>& own);
  void work();

  std::function<Elements(std::int64_t)> make_;
  std::mutex lock_;  // Guards all below
  std::condition_variable changed_;
  std::map<std::int64_t, EntryPtr> entries_;
  std::vector<std::int64_t> next_;  // In reverse order
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tandem::data
