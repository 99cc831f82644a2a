#include "cli/new_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

// Each test runs in an empty directory and checks that no other file is left in it.
class NewFileTest : public testing::Test {
 protected:
  NewFileTest() : directory_(testing::TempDir() + "new_file_" + std::to_string(::getpid())) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~NewFileTest() override { fs::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name = "out") const {
    return (directory_ / name).string();
  }
  static std::string read_text(const std::string& path) {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }
  void write_old_file(const std::string& text) const { std::ofstream(path()) << text; }

  static std::string get_message(const std::string& path) {
    try {
      NewFile file(path);
      file.write("x");
      file.finish();
    } catch (const UserError& e) {
      return e.message;
    }
    return "";
  }

 private:
  fs::path directory_;
};

TEST_F(NewFileTest, AppearsAtTheEnd) {
  NewFile file(path());
  file.write("a");
  file.write(std::string(1 << 20, 'b'));
  EXPECT_FALSE(fs::exists(path()));
  file.finish();
  EXPECT_EQ(read_text(path()), "a" + std::string(1 << 20, 'b'));
  EXPECT_EQ(files(), 1);
}

TEST_F(NewFileTest, RetainsTheOldFileUntilTheEndAndItsMode) {
  write_old_file("old");
  ::chmod(path().c_str(), 0640);
  { NewFile(path()).write("new"); }
  EXPECT_EQ(read_text(path()), "old");
  EXPECT_EQ(files(), 1);
  NewFile file(path());
  file.write("new");
  file.finish();
  EXPECT_EQ(read_text(path()), "new");
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms(0640));
}

TEST_F(NewFileTest, FollowsLinks) {
  write_old_file("old");
  fs::create_symlink("out", path("link"));
  NewFile file(path("link"));
  file.write("new");
  file.finish();
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_text(path()), "new");
  EXPECT_EQ(files(), 2);
}

TEST_F(NewFileTest, LeavesTheOldFileIfASignalEndsTheProgram) {
  write_old_file("old");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto end = [&] {
      std::signal(signal, SIG_DFL);
      NewFile file(path());
      file.write(std::string(1 << 20, 'b'));
      ::raise(signal);
    };
    EXPECT_EXIT(end(), testing::KilledBySignal(signal), "");
    EXPECT_EQ(read_text(path()), "old");
    EXPECT_EQ(files(), 1);
  }
}

TEST_F(NewFileTest, LeavesIgnoredSignalsIgnored) {
  const auto go_on = [&] {
    std::signal(SIGHUP, SIG_IGN);
    NewFile file(path());
    ::raise(SIGHUP);
    file.write("x");
    file.finish();
    ::raise(SIGHUP);
    std::_Exit(0);
  };
  EXPECT_EXIT(go_on(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(read_text(path()), "x");
}

TEST_F(NewFileTest, WritesToSpecialFilesInPlace) {
  EXPECT_EQ(get_message("/dev/null"), "");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(NewFileTest, Errors) {
  EXPECT_EQ(get_message(path("missing/out")), "directory '" + path("missing") + "' does not exist");
  EXPECT_EQ(get_message(path("")), "is a directory");
  EXPECT_EQ(get_message("/dev/full"), "cannot be written: No space left on device");
  EXPECT_EQ(get_message(path(std::string(300, 'n'))), "cannot be written: File name too long");
  EXPECT_EQ(files(), 0);
}

TEST_F(NewFileTest, ReportsInAdvanceThatAFileCannotBeWritten) {
  EXPECT_THROW(expect_writable(path("missing/out")), UserError);
  EXPECT_THROW(expect_writable(path("")), UserError);
  expect_writable("");
  expect_writable(path());
  EXPECT_EQ(files(), 0);
  write_old_file("before");
  expect_writable(path());
  EXPECT_EQ(read_text(path()), "before");
  EXPECT_EQ(files(), 1);
}

TEST_F(NewFileTest, WritesOnlyTheContentToAPipe) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect_writable(path());  // would wait for a reader
  std::string got;
  std::thread reader([&] { got = read_text(path()); });
  write_file(path(), "x");
  reader.join();
  EXPECT_EQ(got, "x");
}

}  // namespace
}  // namespace tandem::cli
