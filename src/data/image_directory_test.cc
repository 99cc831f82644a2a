// Directories of images as data: classes, order, the inputs of a step, and errors.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error_test_support.h"
#include "data/dataset.h"
#include "data/image_test_support.h"
#include "graph/text.h"

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

class ImageDirectoryTest : public testing::Test {
 protected:
  ImageDirectoryTest()
      : directory_(fs::temp_directory_path() / fmt::format("tandem_pictures_{}", getpid())) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~ImageDirectoryTest() override { fs::remove_all(directory_); }

  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
  }
  // Writes an image of one shade.
  void write_gray(const std::string& name, std::uint8_t shade) const {
    write(name, portable("P5 2 2 255\n", Bytes8(4, shade)));
  }
  [[nodiscard]] std::string directory() const { return directory_.string(); }

 private:
  fs::path directory_;
};

graph::Graph classifier(int channels, int classes) {
  return graph::parse_graph(fmt::format(R"(graph net
%image = input() shape=[2, {0}, 2, 2]
%target = input() shape=[2] dtype=int64 below={1}
%flat = reshape(%image) shape=[2, {2}]
%w = weight() shape=[{1}, {2}]
%logits = linear(%flat, %w)
%loss = cross_entropy(%logits, %target)
return %loss
)",
                                        channels, classes, 4 * channels),
                            "text");
}

const graph::Node& find_input(const graph::Graph& model, const std::string& name) {
  for (auto id : list_inputs(model)) {
    if (model.node(id).name == name) return model.node(id);
  }
  throw std::out_of_range(name);
}

double read_one(const Samples& samples, const graph::Node& from, std::int64_t sample,
                std::int64_t element = 0) {
  std::vector<double> out(1);
  samples.read(from, sample, element, out);
  return out[0];
}

// Returns the normalized value of a shade with one channel: its brightness from -1 to 1.
double shown(int shade) { return shade / 127.5 - 1; }

TEST_F(ImageDirectoryTest, SortsClassesAndImagesByName) {
  write_gray("dog/b.pgm", 40);
  write_gray("dog/a.PGM", 30);
  write_gray("cat/later/z.pgm", 20);
  write_gray("cat/first/a.ppm", 10);  // Content decides, not extension
  write("cat/names.txt", "no picture");
  write("readme.md", "not a class");
  const auto model = classifier(1, 3);
  const auto samples = open_samples(directory(), model);
  ASSERT_EQ(samples->count(), 4);
  for (std::int64_t s = 0; s < 4; ++s) {
    EXPECT_EQ(read_one(*samples, find_input(model, "target"), s), s < 2 ? 0 : 1);
    EXPECT_NEAR(read_one(*samples, find_input(model, "image"), s, 3),
                shown(static_cast<int>(10 * (s + 1))), 1e-6);
  }
}

TEST_F(ImageDirectoryTest, StoresChannelsFirst) {
  write("a/x.ppm", portable("P6 2 2 255\n", {255, 0, 51, 1, 1, 1, 1, 1, 1, 0, 255, 102}));
  const auto model = classifier(3, 2);
  const auto samples = open_samples(directory(), model);
  const auto& image = find_input(model, "image");
  EXPECT_NEAR(read_one(*samples, image, 0, 0), (1 - 0.485) / 0.229, 1e-6);
  EXPECT_NEAR(read_one(*samples, image, 0, 4), (0 - 0.456) / 0.224, 1e-6);
  EXPECT_NEAR(read_one(*samples, image, 0, 8), (0.2 - 0.406) / 0.225, 1e-6);
  EXPECT_NEAR(read_one(*samples, image, 0, 11), (0.4 - 0.406) / 0.225, 1e-6);
}

// A step has the same images whether a thread prepares them or not.
TEST_F(ImageDirectoryTest, ReadsTheSameImagesAhead) {
  for (int i = 0; i < 7; ++i) {
    write_gray(fmt::format("{}/{}.pgm", i % 2, i), static_cast<std::uint8_t>(30 * i));
  }
  const auto model = classifier(1, 2);
  const Dataset ahead(directory(), model, 3);
  const Dataset plain(directory(), model, 3);
  EXPECT_EQ(ahead.identity(), plain.identity());
  EXPECT_TRUE(ahead.identity().starts_with("pictures, 7 samples, ")) << ahead.identity();
  for (std::int64_t step = 0; step < 20; ++step) {
    for (const char* name : {"image", "target"}) {
      const auto& from = find_input(model, name);
      std::vector<double> one(from.name == "image" ? 8 : 2);
      auto other = one;
      ahead.read(from, step, 0, one);
      plain.read(from, step, 0, other);
      EXPECT_EQ(one, other);
    }
    ahead.read_ahead(step + 1);
  }
}

TEST_F(ImageDirectoryTest, ReportsErrors) {
  const auto get_dataset_error = [this](const graph::Graph& model) {
    return get_error([&] {
      const Dataset data(directory(), model, 0);
      std::vector<double> to(1);
      for (std::int64_t step = 0; step < data.samples(); ++step) {
        data.read(find_input(model, "image"), step, 0, to);
      }
    });
  };
  const auto model = classifier(1, 2);
  const auto expect = [&](const std::string& what) {
    const auto text = get_dataset_error(model);
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  expect("has no file image.npy");
  expect("a directory of images with one subdirectory per class");
  fs::create_directory(directory() + "/cat");
  expect("cat: has no images, but each subdirectory must be a class");
  write_gray("cat/x.pgm", 1);
  fs::create_directory(directory() + "/dog");
  write("dog/list.txt", "");
  expect("dog: has no images");
  write("dog/old.bmp", "BM");
  expect("old.bmp: is an image in an unsupported format");
  fs::remove(directory() + "/dog/old.bmp");
  write("dog/half.png", "\x89PNG\r\n");
  expect("half.png: cannot be decoded: ");
  write("dog/half.png", "");
  expect("half.png: cannot be decoded: the file is empty");
  fs::remove(directory() + "/dog/half.png");
  fs::create_symlink("nowhere", directory() + "/dog/link.jpg");
  expect("link.jpg: cannot be read");
  fs::remove(directory() + "/dog/link.jpg");
  write_gray("dog/x.pgm", 1);
  EXPECT_EQ(get_dataset_error(model), "no error");
  write_gray("eel/x.pgm", 1);
  expect("has 3 classes, but net distinguishes only 2");
  const auto clicks = graph::parse_graph(R"(graph clicks
%dense = input() shape=[2, 13]
%target = input() shape=[2, 1]
%w = weight() shape=[1, 13]
%y = linear(%dense, %w)
%loss = mse(%y, %target)
return %loss
)",
                                         "text");
  const auto text = get_error([&] { (void)open_samples(directory(), clicks); });
  EXPECT_NE(text.find("holds images in class directories, which do not fit input %dense of clicks"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tandem::data
