// Measures this computer with the runtime's own kernels and collectives, on all processes at once:
// what is measured is what a program will run.
#pragma once

#include <functional>

#include "predict/profile.h"

namespace tandem::runtime {

// Returns the measured profile. All processes of MPI_COMM_WORLD call it together and get the same
// one. Each process computes with `threads` threads. A single process measures no collectives.
// `quick` means fewer sizes and repeats. `renew` is called between measurements with the fraction
// done.
predict::Profile measure_profile(bool quick, std::int64_t threads,
                                 const std::function<void(double)>& renew);

}  // namespace tandem::runtime
