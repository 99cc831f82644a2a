#include "runtime/checkpoint_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "tensor/dense.h"

namespace tandem::runtime {
namespace {

namespace fs = std::filesystem;

class TemporaryDirectory {
 public:
  TemporaryDirectory()
      : path_(fs::temp_directory_path() / fmt::format("tandem_checkpoint_{}", getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~TemporaryDirectory() { fs::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string get_message(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& e) {
    return e.message;
  }
  return "nothing is wrong";
}

Manifest example() {
  return {.step = 20,
          .seed = 0xfedcba9876543210,
          .rate = 0.1,
          .model = "mlp:layers=2",
          .batch = 8,
          .graph = 0x123456789abcdef0,
          .optimizer = "adam",
          .plan = "dp on local:2",
          .data = "tokens, 1200 samples, 00000000deadbeef",
          .tensors = {{"w1", {16, 12}, DType::kFp64}, {"scalar", {}, DType::kFp32}},
          .pieces = {{"w1", {{8, 0}, {8, 12}}, 1, 64, 768, 0xffffffffffffffff}}};
}

TEST(CheckpointFile, RoundTripsAManifest) {
  const auto text = to_text(example());
  const auto again = parse_manifest(text, "manifest");
  EXPECT_EQ(to_text(again), text);
  EXPECT_EQ(again.seed, 0xfedcba9876543210);
  EXPECT_EQ(again.rate, 0.1);
  ASSERT_EQ(again.tensors.size(), 2U);
  EXPECT_EQ(again.tensors[0], (Manifest::ManifestTensor{"w1", {16, 12}, DType::kFp64}));
  ASSERT_EQ(again.pieces.size(), 1U);
  EXPECT_EQ(again.pieces[0].box.offset, (Shape{8, 0}));
  EXPECT_EQ(again.pieces[0].checksum, 0xffffffffffffffff);
}

// The parser detects any byte that is changed or lost.
TEST(CheckpointFile, RefusesADamagedManifest) {
  const auto text = to_text(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto wrong = text;
    wrong[i] = static_cast<char>(wrong[i] ^ 1);
    EXPECT_NE(get_message([&] { parse_manifest(wrong, "m"); }), "nothing is wrong") << i;
    EXPECT_NE(get_message([&] { parse_manifest(text.substr(0, i), "m"); }), "nothing is wrong")
        << i;
  }
  EXPECT_EQ(get_message([&] { parse_manifest("", "m"); }), "is not a manifest of this format");
  EXPECT_EQ(get_message([&] { parse_manifest(text.substr(0, 40), "m"); }), "is truncated");
  EXPECT_EQ(get_message([&] { parse_manifest(text.substr(0, 90) + "\n", "m"); }),
            "is damaged: its checksum does not match");
}

TEST(CheckpointFile, ChecksumsEveryByteIndependentlyOfChunks) {
  std::vector<std::byte> bytes(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(7 * i);
  const auto of = [](std::span<const std::byte> all, std::size_t chunk) {
    Checksum sum;
    for (std::size_t i = 0; i < all.size(); i += chunk) {
      sum.add(all.subspan(i, std::min(chunk, all.size() - i)));
    }
    return sum.value();
  };
  const auto right = of(bytes, 100);
  EXPECT_EQ(of(bytes, 8), right);
  EXPECT_EQ(of(bytes, 32), right);
  for (auto& b : bytes) {
    b ^= std::byte{4};
    EXPECT_NE(of(bytes, 100), right);
    b ^= std::byte{4};
  }
}

// Checks pairs of boxes of a small tensor. The element at each global index is its number.
TEST(CheckpointFile, CopiesBoxesByGlobalIndex) {
  const Shape sizes{3, 4, 2};
  std::vector<TensorBox> boxes;
  for_each_index(sizes, [&](const Shape& offset) {
    for_each_index(sizes, [&](const Shape& last) {
      TensorBox box{offset, last};
      for (std::size_t d = 0; d < 3; ++d) {
        box.shape[d] = last[d] - offset[d] + 1;
        if (box.shape[d] < 1) return;
      }
      boxes.push_back(box);
    });
  });
  const auto number = [&](const TensorBox& box, const Shape& index) {
    Shape at = index;
    for (std::size_t d = 0; d < 3; ++d) at[d] += box.offset[d];
    return static_cast<float>(compute_flat_index(sizes, at));
  };
  const TemporaryDirectory directory;
  for (std::size_t i = 0; i < boxes.size(); i += 7) {
    const auto& from = boxes[i];
    std::vector<float> elements(5, -1);  // Bytes before the piece
    for_each_index(from.shape,
                   [&](const Shape& index) { elements.push_back(number(from, index)); });
    const auto path = directory.path() / fmt::format("{}", i);
    auto out = File::create(path);
    out.write(std::as_bytes(std::span(elements)));
    out.finish();
    const auto file = File::open(path);
    for (const auto& to : boxes) {
      std::vector<float> got(static_cast<std::size_t>(to.shape.count()), -1);
      const auto copied =
          copy_overlap(file, 20, from, to, 4, std::as_writable_bytes(std::span(got)).data());
      std::int64_t wanted = 0;
      std::size_t at = 0;
      bool same = true;
      for_each_index(to.shape, [&](const Shape& index) {
        const bool shared = intersect(from, {[&] {
                                               Shape place = index;
                                               for (std::size_t d = 0; d < 3; ++d)
                                                 place[d] += to.offset[d];
                                               return place;
                                             }(),
                                             {1, 1, 1}})
                                .has_value();
        wanted += shared ? 1 : 0;
        same = same && got[at++] == (shared ? number(to, index) : -1);
      });
      EXPECT_TRUE(same && copied == wanted) << to_text(from.offset) << to_text(to.offset);
    }
  }
}

TEST(CheckpointFile, AcceptsOnlyNumberedDirectories) {
  const TemporaryDirectory directory;
  for (const auto* name : {"step-10", "step-2", "step-30.new", "step-5.old", "other"}) {
    fs::create_directories(directory.path() / name);
  }
  EXPECT_EQ(list_complete_steps(directory.path()), (std::vector<std::int64_t>{2, 10}));
  EXPECT_TRUE(list_complete_steps(directory.path() / "nowhere").empty());
}

TEST(CheckpointFile, ReportsReadAndWriteErrors) {
  const TemporaryDirectory directory;
  EXPECT_EQ(get_message([&] { File::open(directory.path() / "nothing"); }),
            "No such file or directory");
  EXPECT_EQ(get_message([&] { read_manifest(directory.path()); }), "cannot be read");
  const auto path = directory.path() / "short";
  std::ofstream(path) << "abc";
  EXPECT_EQ(get_message([&] { File::create(path); }), "File exists");
  std::vector<std::byte> four(4);
  EXPECT_EQ(get_message([&] { File::open(path).read(0, four); }), "is truncated");
}

TEST(CheckpointFile, AcceptsOldManifestsWithoutData) {
  auto old = example();
  old.data.reset();
  EXPECT_FALSE(parse_manifest(to_text(old), "manifest").data);
  EXPECT_EQ(parse_manifest(to_text(example()), "manifest").data, example().data);
}

TEST(CheckpointFile, LocksADirectory) {
  const TemporaryDirectory directory;
  auto lock = std::make_unique<DirectoryLock>(directory.path());
  EXPECT_EQ(get_message([&] { DirectoryLock second(directory.path()); }),
            "is in use by another run");
  lock.reset();
  EXPECT_EQ(get_message([&] { DirectoryLock second(directory.path()); }), "nothing is wrong");
}

}  // namespace
}  // namespace tandem::runtime
