// Fuzzing of portable pixmaps, which are decoded without a library, and of resizing them.
#include "data/image.h"
#include "target.h"

void tandem::fuzz::parse(std::string_view input) {
  const auto picture = data::decode(input, "fuzz");
  if (picture.colors.size() < (1U << 16U)) (void)data::resize_and_crop(picture, 3, 7, 5);
}
