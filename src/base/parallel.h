// A loop whose rounds do not depend on each other, by several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace tandem {

// work(i) for every i below n, each once; returns when all are done. It must not throw.
template <class Work>
void parallel_for(std::size_t n, unsigned threads, Work&& work) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (auto i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads && t < n; ++t) others.emplace_back(run);
  run();
  for (auto& thread : others) thread.join();
}

}  // namespace tandem
