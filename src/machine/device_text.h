// The lines of a device in a machine file, and those of a `software` section that replace them.
// docs/machine-format.md describes them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "machine/device_fields.h"

namespace tandem::machine {

// Reads fields into a device. `owner` is how messages call it. Throws UserError.
class DeviceText {
 public:
  explicit DeviceText(std::string owner) : owner_(std::move(owner)) {}

  void read(const Place& place, std::string_view name, Words rest, Device& device);
  // Once the device ends at `place`: is everything there, and possible?
  void check(const Place& place, const Device& device) const;

  // `memory computer` was read: what this computer has, until it is divided up.
  [[nodiscard]] bool shares_computer() const { return shares_computer_; }

 private:
  void once(const Place& place, std::string_view field);
  void read_peak(const Place& place, Words rest, Device& device);
  void read_kernels(const Place& place, Words rest, Device& device);

  std::string owner_;
  std::set<std::string, std::less<>> seen_;
  bool shares_computer_ = false;
};

// Fails unless the reserve leaves something of the memory.
void check_reserve(const Place& place, const std::string& owner, const Device& device);

// The index of `rest` in `words`, or fails.
std::size_t read_word(const Place& place, std::string_view field, Words rest,
                      std::span<const std::string_view> words);

}  // namespace tandem::machine
