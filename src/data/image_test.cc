#include "data/image.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error_test_support.h"
#include "data/image_test_support.h"

namespace tandem::data {
namespace {

// Compares the size and the numbers separately, to keep messages short.
void expect_image(const std::string& bytes, std::int64_t width, std::int64_t height,
                  const Bytes8& colors) {
  const auto image = decode(bytes, "an image");
  EXPECT_EQ(image.width, width);
  EXPECT_EQ(image.height, height);
  EXPECT_EQ(image.colors, colors);
}

TEST(Image, DecodesPixmaps) {
  expect_image(portable("P6 2 1 255\n", {1, 2, 3, 4, 5, 6}), 2, 1, {1, 2, 3, 4, 5, 6});
  expect_image(portable("P6\n# by hand\n1 # wide\n2\n255\n", {1, 2, 3, 4, 5, 6}), 1, 2,
               {1, 2, 3, 4, 5, 6});
  expect_image(portable("P5 2 1 255\n", {7, 200}), 2, 1, {7, 7, 7, 200, 200, 200});
  expect_image(portable("P5 3 1 3\n", {0, 1, 3}), 3, 1, {0, 0, 0, 85, 85, 85, 255, 255, 255});
  expect_image(portable("P5 2 1 65535\n", {0x80, 0x80, 0xff, 0xff}), 2, 1,
               {128, 128, 128, 255, 255, 255});
}

TEST(Image, DecodesPngs) {
  // PNG filters per row: none; difference from the left pixel; difference from the pixel above.
  const std::string rows("\0\1\2\3\4\5\6\1\1\1\1\1\1\1\2\1\1\1\1\1\1", 21);
  expect_image(png(2, 3, 2, 8, rows), 2, 3, {1, 2, 3, 4, 5, 6, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3});
  expect_image(png(2, 1, 0, 8, std::string("\0\5\x64", 3)), 2, 1, {5, 5, 5, 100, 100, 100});
  expect_image(png(2, 1, 3, 8, std::string("\0\1\0", 3), std::string("\1\2\3\4\5\6", 6)), 2, 1,
               {4, 5, 6, 1, 2, 3});
  // A transparent pixel has its color.
  expect_image(png(1, 1, 6, 8, std::string("\0\1\2\3\x80", 5)), 1, 1, {1, 2, 3});
  expect_image(png(1, 1, 0, 16, std::string("\0\x80\x80", 3)), 1, 1, {128, 128, 128});
}

TEST(Image, DecodesJpegsWithOneShadePerBlock) {
  const auto gray = decode(JpegWriter(16, 8, 1, {0, 200}).bytes(), "gray.jpg");
  ASSERT_EQ(gray.width, 16);
  ASSERT_EQ(gray.height, 8);
  for (std::int64_t i = 0; i < 3 * 16 * 8; ++i) {
    EXPECT_NEAR(gray.colors[static_cast<std::size_t>(i)], i / 3 % 16 < 8 ? 0 : 200, 1);
  }
  // JFIF's pure red: brightness 76 and color differences 85 and 255.
  const auto red = decode(JpegWriter(8, 8, 3, {76, 85, 255}).bytes(), "red.jpg");
  for (std::size_t i = 0; i < red.colors.size(); i += 3) {
    EXPECT_NEAR(red.colors[i], 254, 1);
    EXPECT_NEAR(red.colors[i + 1], 0, 1);
    EXPECT_NEAR(red.colors[i + 2], 0, 1);
  }
}

TEST(Image, ReportsErrors) {
  const auto get_decode_error = [](const std::string& bytes) {
    return get_error([&] { (void)decode(bytes, "cat.jpg"); });
  };
  const auto jpeg = JpegWriter(64, 64, 1, Bytes8(64, 77)).bytes();
  const auto image = png(2, 1, 0, 8, std::string("\0\5\x64", 3));
  const std::string map = portable("P6 2 2 255\n", Bytes8(12, 9));
  for (const auto& whole : {jpeg, image, map}) {
    EXPECT_NO_THROW((void)decode(whole, ""));
    for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
      const auto text = get_decode_error(whole.substr(0, size));
      EXPECT_NE(text.find("cat.jpg: cannot be decoded: "), std::string::npos) << size << text;
    }
  }
  EXPECT_NE(get_decode_error("").find("the file is empty"), std::string::npos);
  EXPECT_NE(get_decode_error("GIF89a").find("the file is not a JPEG, PNG, P5 or P6 image"),
            std::string::npos);
  EXPECT_NE(get_decode_error("P6 0 4 255\n").find("the header gives 0 x 4 pixels"),
            std::string::npos);
  EXPECT_NE(get_decode_error("P6 999999 999999 255\n").find("999999 x 999999 pixels"),
            std::string::npos);
  EXPECT_NE(get_decode_error("P6 2 2 65536\n").find("a maximum value"), std::string::npos);
  EXPECT_NE(get_decode_error("P6 2 2 255\nabc").find("holds 3 bytes for 2 x 2 pixels"),
            std::string::npos);
  auto flipped = image;
  flipped[45] = static_cast<char>(flipped[45] ^ 1);  // Within its data
  EXPECT_NE(get_decode_error(flipped).find("cannot be decoded"), std::string::npos);
}

// Any bytes decode to an image or raise an error.
TEST(Image, DecodesOrRefusesMutatedFiles) {
  std::mt19937 random(5);
  const auto jpeg = JpegWriter(64, 64, 3, Bytes8(192, 77)).bytes();
  const auto image = png(2, 3, 2, 8, std::string(21, '\1'));
  const std::string map = portable("P5 # a\n 3 2 1000\n", Bytes8(12, 2));
  for (const auto& whole : {jpeg, image, map}) {
    for (int i = 0; i < 3000; ++i) {
      auto bytes = whole;
      for (auto n = random() % 3; n-- <= 3;) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      bytes[0] = whole[0];
      (void)get_error([&] {
        const auto decoded = decode(bytes, "");
        EXPECT_EQ(static_cast<std::int64_t>(decoded.colors.size()),
                  3 * decoded.height * decoded.width);
        if (decoded.colors.size() < 10000) (void)resize_and_crop(decoded, 3, 4, 4);
      });
    }
  }
}

RgbImage make_gray_image(std::int64_t height, std::int64_t width, const Bytes8& shades) {
  RgbImage out{height, width, {}};
  for (const auto s : shades) out.colors.insert(out.colors.end(), 3, s);
  return out;
}

void expect_elements(const std::vector<float>& found, const std::vector<float>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-3) << i;
}

TEST(Image, InterpolatesNeighbours) {
  RgbImage colors{1, 2, {1, 2, 3, 4, 5, 6}};
  expect_elements(resize_and_crop(colors, 3, 1, 2), {1, 4, 2, 5, 3, 6});
  expect_elements(resize_and_crop(colors, 1, 1, 2),
                  {0.299F + 2 * 0.587F + 3 * 0.114F, 4 * 0.299F + 5 * 0.587F + 6 * 0.114F});
  // Scaling to half: weights 1/8, 3/8, 3/8, 1/8 of four pixels, and of three pixels at the ends.
  const auto ramp = make_gray_image(1, 8, {0, 8, 16, 24, 32, 40, 48, 56});
  const auto wide = make_gray_image(2, 8,
                                    {0, 8, 16, 24, 32, 40, 48, 56,  //
                                     0, 8, 16, 24, 32, 40, 48, 56});
  expect_elements(resize_and_crop(wide, 1, 1, 4),
                  {(3 * 0 + 3 * 8 + 16) / 7.0F, 20, 36, (3 * 56 + 3 * 48 + 40) / 7.0F});
  // Scaling to double: the farther pixel has the weight 1/4.
  expect_elements(resize_and_crop(make_gray_image(1, 2, {0, 100}), 1, 2, 4),
                  {0, 25, 75, 100, 0, 25, 75, 100});
  // The middle is cut out.
  expect_elements(resize_and_crop(ramp, 1, 1, 2), {24, 32});
  expect_elements(resize_and_crop(make_gray_image(4, 1, {0, 10, 20, 30}), 1, 2, 1), {10, 20});
}

TEST(Image, ResizesAConstantToAConstant) {
  for (const auto& [height, width] : {std::pair{37, 53}, std::pair{5, 3}, std::pair{300, 64}}) {
    const auto image =
        make_gray_image(height, width, Bytes8(static_cast<std::size_t>(height * width), 130));
    for (const auto e : resize_and_crop(image, 3, 24, 31)) EXPECT_NEAR(e, 130, 1e-3);
  }
}

TEST(Image, NormalizesLikeImageNet) {
  std::vector<float> colors = {255, 0, 127.5F};
  normalize(colors, 3);
  expect_elements(colors, {(1 - 0.485F) / 0.229F, -0.456F / 0.224F, (0.5F - 0.406F) / 0.225F});
  std::vector<float> gray = {0, 255};
  normalize(gray, 1);
  expect_elements(gray, {-1, 1});
}

}  // namespace
}  // namespace tandem::data
