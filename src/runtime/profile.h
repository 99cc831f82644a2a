// Measures this computer as programs use it: by the runtime's own kernels and collectives, all
// processes at once, so that what is measured is what will run.
#pragma once

#include <functional>

#include "predict/profile.h"

namespace tandem::runtime {

// All processes of MPI_COMM_WORLD call it together; each gets the same, and computes with
// `threads`. One process alone has no collectives. `quick`: fewer sizes and repeats. `renew` is
// called between measurements, with what has been done of 1.
predict::Profile measure(bool quick, std::int64_t threads,
                         const std::function<void(double)>& renew);

}  // namespace tandem::runtime
