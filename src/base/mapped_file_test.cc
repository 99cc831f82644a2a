#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

class TruncatedFile : public testing::Test {
 protected:
  TruncatedFile()
      : path_((fs::temp_directory_path() / ("tandem_cut_" + std::to_string(getpid()))).string()) {
    std::ofstream(path_) << std::string(10000, 'x');
  }
  ~TruncatedFile() override { fs::remove(path_); }

  std::string path_;
};

TEST_F(TruncatedFile, IsDetected) {
  const MappedFile file(path_);
  EXPECT_EQ(file.bytes().size(), 10000U);
  EXPECT_NO_THROW(file.check_not_truncated());
  std::ofstream(path_, std::ios::app) << "more";
  EXPECT_NO_THROW(file.check_not_truncated());
  fs::resize_file(path_, 9999);
  try {
    file.check_not_truncated();
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.where, path_);
    EXPECT_EQ(e.message, "was cut off while it was read: 9999 of 10000 bytes are left");
  }
}

// A signal handler asks in this way.
TEST_F(TruncatedFile, IsFoundByAddress) {
  const char* address = nullptr;
  {
    const MappedFile file(path_);
    address = file.bytes().data();
    EXPECT_STREQ(find_mapped_path(address), path_.c_str());
    EXPECT_STREQ(find_mapped_path(address + 9999), path_.c_str());
    EXPECT_EQ(find_mapped_path(address + 10000), nullptr);
    EXPECT_EQ(find_mapped_path(&file), nullptr);
  }
  EXPECT_EQ(find_mapped_path(address), nullptr);
}

}  // namespace
}  // namespace tandem
