#include "data/dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error_test_support.h"
#include "graph/text.h"

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

class DatasetTest : public testing::Test {
 protected:
  DatasetTest() : directory_(fs::temp_directory_path() / fmt::format("tandem_data_{}", getpid())) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~DatasetTest() override { fs::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const auto path = (directory_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  [[nodiscard]] std::string directory() const { return directory_.string(); }

  // Writes an array like numpy.save.
  void write_array(const std::string& input, const std::string& descr, const std::string& shape,
                   const std::string& elements) const {
    auto header =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
    header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
    header += '\n';
    write(input + ".npy", std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) +
                              '\0' + header + elements);
  }

 private:
  fs::path directory_;
};

template <class T>
std::string to_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

graph::Graph language_model() {
  return graph::parse_graph(R"(graph words
%tokens = input() shape=[2, 3] dtype=int64 below=1000
%target = input() shape=[2, 3] dtype=int64 below=1000
%w = weight() shape=[1000, 4]
%out = weight() shape=[1000, 4]
%h = embedding(%tokens, %w)
%logits = linear(%h, %out)
%loss = cross_entropy(%logits, %target)
return %loss
)",
                            "text");
}

graph::Graph clicks() {
  return graph::parse_graph(R"(graph clicks
%dense = input() shape=[2, 13]
%index0 = input() shape=[2, 1] dtype=int64 below=100
%index25 = input() shape=[2, 1] dtype=int64 below=7
%target = input() shape=[2, 1]
%w = weight() shape=[1, 13]
%y = linear(%dense, %w)
%t0 = weight() shape=[100, 1]
%t1 = weight() shape=[7, 1]
%e0 = embedding_bag(%index0, %t0)
%e1 = embedding_bag(%index25, %t1)
%s0 = add(%y, %e0)
%s1 = add(%s0, %e1)
%loss = mse(%s1, %target)
return %loss
)",
                            "text");
}

const graph::Node& input(const graph::Graph& model, const std::string& name) {
  for (auto id : model.ids()) {
    if (model.node(id).name == name) return model.node(id);
  }
  throw std::out_of_range(name);
}

std::vector<double> read(const Samples& samples, const graph::Node& from, std::int64_t sample,
                         std::size_t count) {
  std::vector<double> out(count);
  samples.read(from, sample, 0, out);
  return out;
}

TEST(Shuffle, IsAPermutation) {
  for (const std::int64_t count : {1, 2, 3, 5, 64, 1000}) {
    std::set<std::int64_t> seen;
    const Shuffle shuffle(count, 7);
    for (std::int64_t i = 0; i < count; ++i) seen.insert(shuffle(i));
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
  const Shuffle one(1000, 7);
  const Shuffle other(1000, 8);
  int same = 0;
  int fixed = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    same += one(i) == other(i) ? 1 : 0;
    fixed += one(i) == i ? 1 : 0;
  }
  EXPECT_LT(same, 20);
  EXPECT_LT(fixed, 20);
}

TEST_F(DatasetTest, ShiftsTargetsByOneToken) {
  const auto model = language_model();
  for (const bool wide : {false, true}) {
    const auto path = wide ? write("t.u32", to_bytes<std::uint32_t>({5, 6, 7, 8, 9, 10, 999, 1}))
                           : write("t.bin", to_bytes<std::uint16_t>({5, 6, 7, 8, 9, 10, 999, 1}));
    const auto samples = open_samples(path, model);
    EXPECT_EQ(samples->count(), 2);
    EXPECT_EQ(read(*samples, input(model, "tokens"), 1, 3), (std::vector<double>{8, 9, 10}));
    EXPECT_EQ(read(*samples, input(model, "target"), 1, 3), (std::vector<double>{9, 10, 999}));
  }
}

TEST_F(DatasetTest, ReadsArraysByName) {
  const auto model = language_model();
  write_array("tokens", "<i4", "(2, 3)", to_bytes<std::int32_t>({1, 2, 3, 4, 5, 6}));
  write_array("target", "|u1", "(2, 3)", to_bytes<std::uint8_t>({7, 8, 9, 250, 251, 252}));
  const auto samples = open_samples(directory(), model);
  EXPECT_EQ(samples->count(), 2);
  EXPECT_EQ(read(*samples, input(model, "tokens"), 1, 3), (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(read(*samples, input(model, "target"), 1, 3), (std::vector<double>{250, 251, 252}));
}

TEST_F(DatasetTest, ReadsArraysOfFloats) {
  const auto model = clicks();
  const std::vector<float> dense(39, 0.25F);
  write_array("dense", "<f4", "(3, 13)", to_bytes(dense));
  write_array("index0", "<i8", "(3,)", to_bytes<std::int64_t>({99, 98, 97}));
  write_array("index25", "<u2", "(3, 1)", to_bytes<std::uint16_t>({0, 1, 2}));
  write_array("target", "<f8", "(3, 1)", to_bytes<double>({0, 1, 0.5}));
  const auto samples = open_samples(directory(), model);
  EXPECT_EQ(samples->count(), 3);
  EXPECT_EQ(read(*samples, input(model, "dense"), 2, 13)[12], 0.25);
  EXPECT_EQ(read(*samples, input(model, "index0"), 2, 1)[0], 97);
  EXPECT_EQ(read(*samples, input(model, "target"), 2, 1)[0], 0.5);
}

std::string criteo_line(const std::string& label, const std::string& count,
                        const std::string& category) {
  auto out = label;
  for (int i = 0; i < 13; ++i) out += "\t" + count;
  for (int i = 0; i < 26; ++i) out += "\t" + category;
  return out + "\n";
}

TEST_F(DatasetTest, ReadsCriteoFiles) {
  const auto model = clicks();
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += criteo_line(i % 2 == 0 ? "0" : "1", std::to_string(i), "68fd1e64");
  text += criteo_line("1", "", "");
  const auto samples = open_samples(write("day.tsv", text), model);
  EXPECT_EQ(samples->count(), 41);
  EXPECT_EQ(read(*samples, input(model, "dense"), 37, 13), std::vector<double>(13, std::log(38.0)));
  EXPECT_EQ(read(*samples, input(model, "index0"), 37, 1)[0], 0x68fd1e64 % 100);
  EXPECT_EQ(read(*samples, input(model, "index25"), 37, 1)[0], 0x68fd1e64 % 7);
  EXPECT_EQ(read(*samples, input(model, "target"), 37, 1)[0], 1);
  EXPECT_EQ(read(*samples, input(model, "dense"), 40, 13), std::vector<double>(13, 0.0));
  EXPECT_EQ(read(*samples, input(model, "index0"), 40, 1)[0], 0);
}

// Every sample comes once per epoch, whatever the batch size; each epoch has another order.
TEST_F(DatasetTest, ReadsEverySampleOncePerEpoch) {
  const auto model = language_model();
  std::vector<std::uint16_t> tokens(3 * 7 + 1);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i);
  const Dataset data(write("t.bin", to_bytes(tokens)), model, 3);
  ASSERT_EQ(data.samples(), 7);
  std::vector<std::vector<double>> passes(2);
  for (std::int64_t step = 0; step < 7; ++step) {
    std::vector<double> batch(6);
    data.read(input(model, "tokens"), step, 0, batch);
    for (std::int64_t row = 0; row < 2; ++row) {
      const auto first = batch[static_cast<std::size_t>(3 * row)];
      EXPECT_EQ(first, 3.0 * static_cast<double>(data.sample_at(step, row, 2)));
      passes[static_cast<std::size_t>((2 * step + row) / 7)].push_back(first);
    }
    std::vector<double> part(3);  // Covers parts of both rows
    data.read(input(model, "tokens"), step, 2, part);
    EXPECT_EQ(part, (std::vector<double>{batch[2], batch[3], batch[4]}));
  }
  EXPECT_NE(passes[0], passes[1]);
  for (auto& pass : passes) std::ranges::sort(pass);
  EXPECT_EQ(passes[0], (std::vector<double>{0, 3, 6, 9, 12, 15, 18}));
  EXPECT_EQ(passes[0], passes[1]);
}

TEST_F(DatasetTest, ReportsErrors) {
  const auto words = language_model();
  const auto get_dataset_error = [](const std::string& path, const graph::Graph& model) {
    return get_error([&] {
      const Dataset data(path, model, 0);
      std::vector<double> to(1);
      for (auto id : list_inputs(model)) {
        for (std::int64_t step = 0; step < data.samples(); ++step)
          data.read(model.node(id), step, 0, to);
      }
    });
  };
  const auto expect = [&](const std::string& path, const graph::Graph& model,
                          const std::string& what) {
    const auto text = get_dataset_error(path, model);
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  expect(directory() + "/none.bin", words, "cannot be read");
  expect(directory() + "/none", words, "cannot be read");
  expect(write("a.jpg", ""), words, "has an unsupported format");
  expect(write("odd.bin", "abc"), words,
         "has 3 bytes, which is not a multiple of 2 bytes per token");
  expect(write("empty.bin", ""), words, "has 0 tokens, but one sample needs 4");
  expect(write("short.bin", "abcdef"), words, "has 3 tokens, but one sample needs 4");
  expect(write("large.bin", to_bytes<std::uint16_t>({1000, 1, 2, 3})), words,
         "sample 0 has the value 1000 for input %tokens, which takes 0 to 999");
  expect(write("t.bin", "abcdefgh"), clicks(), "which do not fit input %dense of clicks");

  expect(directory(), words, "tokens.npy");
  write_array("target", "<i8", "(1, 3)", to_bytes<std::int64_t>({1, 2, 3}));
  write("tokens.npy", "PK and so on, no NumPy");
  expect(directory(), words, "is not a .npy file");
  write_array("tokens", "<c8", "(1, 3)", "");
  expect(directory(), words, "has the unsupported element type '<c8'");
  write_array("tokens", "<i8", "(2, 3)", to_bytes<std::int64_t>({1, 2, 3}));
  expect(directory(), words, "is truncated: it holds 3 elements instead of 2 x 3");
  write_array("tokens", "<i8", "(2, 2)", to_bytes<std::int64_t>({1, 2, 3, 4}));
  expect(directory(), words, "has 2 elements per sample, but input %tokens takes 3");
  write_array("tokens", "<i8", "(0, 3)", "");
  expect(directory(), words, "has no samples");
  write_array("tokens", "<i8", "(2, 99999999999, 99999999999)", "");
  expect(directory(), words, "has the invalid shape");
  write_array("tokens", "<i8", "(2, 3)", to_bytes<std::int64_t>({1, 2, 3, 4, 5, 6}));
  expect(directory(), words, "has 1 samples, but");
  write_array("tokens", "<i8", "(1, 3)", to_bytes<std::int64_t>({-1, 2, 3}));
  expect(directory(), words, "sample 0 has the value -1 for input %tokens");
  fs::resize_file(directory() + "/tokens.npy", 40);
  expect(directory(), words, "has a truncated header");

  expect(write("c.tsv", ""), clicks(), "has no lines");
  expect(write("c.tsv", "1\t2\n"), clicks(), "c.tsv:1: does not have 40 tab-separated fields");
  expect(write("c.tsv", criteo_line("1", "2", "3") + criteo_line("1", "x", "3")), clicks(),
         "c.tsv:2: 'x' is not a number");
  expect(write("c.tsv", criteo_line("1", "2", "3\t4")), clicks(),
         "does not have 40 tab-separated fields");
  expect(directory() + "/c.tsv", words,
         "which do not fit input %tokens of words with 3 elements per sample");
}

}  // namespace
}  // namespace tandem::data
