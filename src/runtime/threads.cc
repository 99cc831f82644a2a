#include "runtime/threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace tandem::runtime {

void use_threads(std::int64_t count) {
  const auto threads = static_cast<int>(count);
  at::set_num_threads(threads);
  // OpenBLAS has taken its number of threads from the environment. If it is built with its own
  // threads, it does not ask OpenMP. Other libraries have no such function.
  using SetThreads = void (*)(int);
  if (void* set = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) {
    reinterpret_cast<SetThreads>(set)(threads);
  }
}

std::int64_t get_thread_count() { return at::get_num_threads(); }

}  // namespace tandem::runtime
