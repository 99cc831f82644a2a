// Sets the environment variables that OpenBLAS, OpenMP, the C library and Open MPI read at program
// start. The process sets them once and then executes itself again.
#pragma once

namespace tandem::runtime {

// Sets the variables and executes the program again with `argv`. Keeps the settings that the user
// has made. Returns once the variables are in force. TANDEM_WORKER_ENVIRONMENT=as-is leaves
// everything unchanged.
void tune_environment(char** argv);

}  // namespace tandem::runtime
