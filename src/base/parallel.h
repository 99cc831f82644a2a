// A loop whose rounds do not depend on each other, by several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tandem {

// What was asked for, or one for each core.
inline unsigned threads_of(unsigned asked) {
  return asked > 0 ? asked : std::max(1U, std::thread::hardware_concurrency());
}

// work(i) for every i below n, each once; returns when all are done. What one of them throws ends
// the loop early and is thrown here.
template <class Work>
void parallel_for(std::size_t n, unsigned threads, Work&& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr thrown;
  std::mutex throwing;
  const auto run = [&] {
    try {
      for (auto i = next++; i < n; i = next++) work(i);
    } catch (...) {
      next = n;
      const std::scoped_lock lock(throwing);
      if (!thrown) thrown = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  try {
    for (unsigned t = 1; t < threads && t < n; ++t) others.emplace_back(run);
  } catch (const std::system_error&) {
    // The system gives no more: those there are do it.
  }
  run();
  others.clear();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace tandem
