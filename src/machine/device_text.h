// Parser of a device's lines in a machine file, and of the lines of a `software` section that
// replace them. docs/reference/machine-format.md describes the lines.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "machine/device_fields.h"

namespace tandem::machine {

// Reads fields into a device. Messages call the device `owner`. Throws UserError.
class DeviceText {
 public:
  explicit DeviceText(std::string owner) : owner_(std::move(owner)) {}

  void read(const Place& place, std::string_view name, Words rest, Device& device);
  // Checks that all required fields were read and are consistent; the device ends at `place`.
  void check(const Place& place, const Device& device) const;

  // Returns whether `memory computer` was read. The memory is then that of the whole computer; the
  // caller divides it among the devices.
  [[nodiscard]] bool shares_computer() const { return shares_computer_; }

 private:
  void check_once(const Place& place, std::string_view field);
  void read_peak(const Place& place, Words rest, Device& device);
  void read_kernels(const Place& place, Words rest, Device& device);

  std::string owner_;
  std::set<std::string, std::less<>> seen_;
  bool shares_computer_ = false;
};

// Fails if the reserve is at least as large as the memory.
void check_reserve(const Place& place, const std::string& owner, const Device& device);

// Returns the index of the single word `rest` in `words`; fails if it is not one of them.
std::size_t read_word(const Place& place, std::string_view field, Words rest,
                      std::span<const std::string_view> words);

}  // namespace tandem::machine
