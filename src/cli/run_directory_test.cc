#include "cli/run_directory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/worker_job.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

TEST(RunDirectory, RetainsTheJobFileUntilItsEnd) {
  runtime::WorkerJob job;
  job.plan = "plan.json";
  job.steps = 20;
  std::string path;
  {
    const RunDirectory directory;
    path = directory.add_file("job.json", to_json(job));
    EXPECT_EQ(fs::path(path).parent_path(), directory.list_paths().at(0));
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    EXPECT_EQ(text.str(), "{\n \"plan\": \"plan.json\",\n \"steps\": 20\n}\n");
  }
  EXPECT_FALSE(fs::exists(path));
}

// Paths of mpirun are words of their own, whatever characters they have.
TEST(RunDirectory, NamesItsDirectoriesInMpirunFlags) {
  const RunDirectory directory;
  const auto flags = directory.make_mpirun_flags();
  for (const auto& path : directory.list_paths()) {
    EXPECT_TRUE(fs::is_directory(path));
    EXPECT_NE(std::ranges::find(flags, path), flags.end()) << path;
  }
}

}  // namespace
}  // namespace tandem::cli
