#include "data/read_ahead.h"

#include <algorithm>
#include <utility>

namespace tandem::data {

ReadAhead::ReadAhead(std::function<Elements(std::int64_t)> make) : make_(std::move(make)) {}

ReadAhead::~ReadAhead() {
  {
    const std::scoped_lock own(lock_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

ReadAhead::Made ReadAhead::get(std::int64_t sample) {
  std::unique_lock own(lock_);
  auto& at = entries_[sample];
  if (at == nullptr) at = std::make_shared<ReadAheadSample>();
  const auto entry = at;
  if (entry->is_started) {
    changed_.wait(own, [&] { return entry->is_done(); });
  } else {
    make(sample, entry, own);
  }
  if (entry->failed) std::rethrow_exception(entry->failed);
  return entry->elements;
}

void ReadAhead::prefetch(std::span<const std::int64_t> samples) {
  const std::scoped_lock own(lock_);
  auto before = std::exchange(entries_, {});
  next_.assign(samples.rbegin(), samples.rend());
  for (const auto sample : samples) {
    auto& entry = entries_[sample];
    if (const auto prepared = before.find(sample); prepared != before.end())
      entry = prepared->second;
    if (entry == nullptr) entry = std::make_shared<ReadAheadSample>();
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

void ReadAhead::make(std::int64_t sample, const EntryPtr& entry,
                     std::unique_lock<std::mutex>& own) {
  entry->is_started = true;
  own.unlock();
  Made made;
  std::exception_ptr failed;
  try {
    made = std::make_shared<const Elements>(make_(sample));
  } catch (...) {
    failed = std::current_exception();
  }
  own.lock();
  entry->elements = std::move(made);
  entry->failed = std::move(failed);
  changed_.notify_all();
}

void ReadAhead::work() {
  std::unique_lock own(lock_);
  for (;;) {
    changed_.wait(own, [this] { return ends_ || !next_.empty(); });
    if (ends_) return;
    const auto sample = next_.back();
    next_.pop_back();
    const auto entry = entries_.at(sample);
    if (!entry->is_started) make(sample, entry, own);
  }
}

}  // namespace tandem::data
