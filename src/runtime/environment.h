// What OpenBLAS, the C library and OpenMPI read from the environment before main: set once, by
// starting the program again.
#pragma once

namespace tandem::runtime {

// Settings the user has made are kept. Returns when they are in force;
// TANDEM_WORKER_ENVIRONMENT=as-is leaves everything as it is.
void tune_environment(char** argv);

}  // namespace tandem::runtime
