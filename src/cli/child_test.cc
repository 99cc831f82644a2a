// Programs that run_child starts by way of `tandem --supervise`, which is in the directory of this
// test.
#include "cli/child.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/text.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class ChildTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto tandem = fs::read_symlink("/proc/self/exe").parent_path() / "tandem";
    if (!fs::exists(tandem)) GTEST_SKIP() << tandem << " is not built";
    directory_ = testing::TempDir() + "child_" + std::to_string(::getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override {
    if (!directory_.empty()) fs::remove_all(directory_);
  }

  std::string directory_;
};

// Programs that are joined (false) and apart (true).
class ChildOfBothKinds : public ChildTest, public testing::WithParamInterface<bool> {
 protected:
  static Ended run(const std::vector<std::string>& command, const LineReader& read_line = nullptr) {
    return run_child({.command = command, .apart = GetParam()}, read_line);
  }
};

TEST_P(ChildOfBothKinds, PassesArgumentsWithoutAShell) {
  const auto ended = run({"printf", "%s|", "a  b", "$HOME", "it's", "*", ""});
  EXPECT_EQ(ended.text, "a  b|$HOME|it's|*||");
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.stopped_by, 0);
}

TEST_P(ChildOfBothKinds, ReturnsTheStatusThatAShellReturns) {
  EXPECT_EQ(run({"sh", "-c", "exit 3"}).status, 3);
  EXPECT_EQ(run({"sh", "-c", "kill -KILL $$"}).status, 128 + SIGKILL);
}

TEST_P(ChildOfBothKinds, FailsForAMissingProgram) {
  const auto ended = run({"/nowhere/program"});
  EXPECT_EQ(ended.status, 127);
  EXPECT_NE(ended.text.find("cannot be started: No such file or directory"), std::string::npos)
      << ended.text;
}

TEST_P(ChildOfBothKinds, ProvidesEmptyInput) { EXPECT_EQ(run({"cat"}).text, ""); }

TEST_P(ChildOfBothKinds, OmitsConsumedLines) {
  std::vector<std::string> taken;
  const auto ended = run({"printf", "+1\nleft\n+2\n\n+unfinished"}, [&](std::string_view line) {
    if (!line.starts_with("+")) return false;
    taken.emplace_back(line);
    return true;
  });
  EXPECT_EQ(taken, (std::vector<std::string>{"+1", "+2"}));
  EXPECT_EQ(ended.text, "left\n\n+unfinished");
}

// The fifth word of /proc/PID/stat is the process group.
TEST_P(ChildOfBothKinds, StartsADetachedProgramInItsOwnGroup) {
  const auto text = run({"cat", "/proc/self/stat"}).text;
  const auto words = split_words(text);
  ASSERT_GT(words.size(), 4U);
  EXPECT_EQ(words[4] != std::to_string(::getpgrp()), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Each, ChildOfBothKinds, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Apart") : std::string("Joined");
});

TEST_F(ChildTest, StopsTheProgramOnRequest) {
  const auto ended =
      run_child({.command = {"sh", "-c", "kill -TERM $PPID; exec sleep 100"}, .apart = false});
  EXPECT_EQ(ended.stopped_by, SIGTERM);
  EXPECT_EQ(ended.status, 128 + SIGTERM);
}

TEST_F(ChildTest, RemovesDirectoriesAtTheEnd) {
  const ChildProgram program = {
      .command = {"test", "-d", directory_}, .apart = true, .directories = {directory_}};
  EXPECT_EQ(run_child(program).status, 0);
  EXPECT_FALSE(fs::exists(directory_));
}

// The process that starts the program is killed. Then the program ends, and its directory goes.
TEST_F(ChildTest, EndsTheProgramWithItsParent) {
  const auto pid_path = directory_ + ".pid";
  const auto parent = ::fork();
  if (parent == 0) {
    (void)run_child({.command = {"sh", "-c", "echo $$ >\"$0\"; exec sleep 100", pid_path},
                     .apart = true,
                     .directories = {directory_}});
    ::_exit(0);
  }
  const auto wait_until = [](const auto& is_done) {
    for (int i = 0; i < 1000 && !is_done(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return is_done();
  };
  pid_t program = 0;
  EXPECT_TRUE(wait_until([&] { return bool(std::ifstream(pid_path) >> program); }));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(wait_until([&] { return !fs::exists(directory_); }));
  if (program > 0) {
    EXPECT_NE(::kill(program, 0), 0);
  }
  fs::remove(pid_path);
}

}  // namespace
}  // namespace tandem::cli
