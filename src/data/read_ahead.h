// What takes long to read, made by a thread of its own before it is asked for.
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

  // `make` gives the elements of a sample; two threads call it.
  explicit ReadAhead(std::function<Elements(std::int64_t sample)> make);
  // Waits for the sample that is being made.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Waits where it is being made, makes it here where it has not been begun. What `make` throws
  // comes from here, whichever thread it was in.
  Made get(std::int64_t sample);

  // These will be asked for next, in this order; others are dropped.
  void expect(std::span<const std::int64_t> samples);

 private:
  struct Entry {
    bool is_begun = false;
    Made made = nullptr;
    std::exception_ptr failed = nullptr;
    [[nodiscard]] bool is_done() const { return made != nullptr || failed != nullptr; }
  };
  using EntryPtr = std::shared_ptr<Entry>;  // one that is dropped is made to its end
  // `own` holds the lock, and has it again afterwards.
  void make(std::int64_t sample, const EntryPtr& entry, std::unique_lock<std::mutex>& own);
  void work();

  std::function<Elements(std::int64_t)> make_;
  std::mutex lock_;  // of all below
  std::condition_variable changed_;
  std::map<std::int64_t, EntryPtr> entries_;
  std::vector<std::int64_t> next_;  // the last one first
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tandem::data
