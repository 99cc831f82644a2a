// A parallel loop over independent iterations.
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

// Returns `asked`, or the number of cores if it is 0.
inline unsigned resolve_thread_count(unsigned asked) {
  return asked > 0 ? asked : std::max(1U, std::thread::hardware_concurrency());
}

// Calls work(i) once for every i below n, on several threads, and returns when all are done. An
// exception ends the loop early and is rethrown here.
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
    // The system provides no more threads; the existing ones do the work.
  }
  run();
  others.clear();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace tandem
