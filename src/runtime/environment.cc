#include "runtime/environment.h"

#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tandem::runtime {

namespace {
constexpr const char* kDone = "TANDEM_WORKER_ENVIRONMENT";

void set_if_unset(const char* name, const char* value) { setenv(name, value, 0); }

#ifdef __x86_64__
// Returns whether the CPU computes 512-bit vectors in two halves, as Zen 4 does. AVX-512 kernels
// are then no faster than AVX2 on large matrices, and slower on matrices of few rows.
bool halves_wide_vectors() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  const auto family = (a >> 8U & 0xFU) + (a >> 20U & 0xFFU);
  constexpr unsigned kZen3AndZen4 = 0x19;
  return family == kZen3AndZen4;
}

// Returns the name of OpenBLAS's fastest kernels for this CPU, or null. Debian's OpenBLAS 0.3.21
// does not know newer CPUs: it takes AVX2 kernels on AMD's, and older ones on Intel's. These are
// 1.7 and 4 times slower than the fastest.
const char* find_fastest_kernels() {
  const bool wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
  if (wide && !halves_wide_vectors()) return "SkylakeX";
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell" : nullptr;
}
#endif

// Prefers the OpenBLAS that Debian builds for OpenMP to the one that programs are linked to. The
// threads of the latter wait for work next to those of ATen, and take their cores.
void prefer_blas_with_openmp() {
  const std::string directory = "/usr/lib/x86_64-linux-gnu/openblas-openmp";
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored)) return;
  const char* paths = std::getenv("LD_LIBRARY_PATH");
  const bool given = paths != nullptr && *paths != 0;
  setenv("LD_LIBRARY_PATH", (given ? directory + ":" + paths : directory).c_str(), 1);
}
}  // namespace

void tune_environment(char** argv) {
  if (std::getenv(kDone) != nullptr) return;
  // One thread per process unless the plan says otherwise; the ranks are the parallelism.
  set_if_unset("OPENBLAS_NUM_THREADS", "1");
  set_if_unset("OMP_NUM_THREADS", "1");
#ifdef __x86_64__
  if (const auto* kernels = find_fastest_kernels()) set_if_unset("OPENBLAS_CORETYPE", kernels);
#endif
  prefer_blas_with_openmp();
  // Page faults on memory that is freed and allocated again in every step cost up to 40 % of a
  // step.
  set_if_unset("GLIBC_TUNABLES",
               "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
               "glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=67108864");
  // Cross-memory attach is slower here than copying through shared memory, and often forbidden.
  set_if_unset("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  // A rank that spins while it waits prevents the awaited rank from running if other programs use
  // the cores too: steps of 0.06 s were seen to take 2.6 s. Yielding costs nothing on idle cores.
  // (Processes that share memory sleep instead: see runtime/shared_memory.h.)
  set_if_unset("OMPI_MCA_mpi_yield_when_idle", "1");
  setenv(kDone, "tuned", 1);
  execv("/proc/self/exe", argv);
  // Without /proc this process continues without these settings, and is slower.
}

}  // namespace tandem::runtime
