// Parser of a software profile in a machine file: fields that replace those of every device, and
// fields of levels. Every profile is parsed; only the requested one is applied.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "machine/device_text.h"
#include "machine/level_fields.h"
#include "machine/utilization_text.h"

namespace tandem::machine {

class SoftwareText {
 public:
  explicit SoftwareText(std::string name)
      : name_(std::move(name)), owner_("software " + name_), device_(owner_) {}

  // Reads a line that begins with `keyword`; `levels` are the machine's levels. Throws UserError.
  void read(const Place& place, std::string_view keyword, Words rest,
            const std::vector<Level>& levels);
  void set_doc(const Place& place, std::string doc);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& doc() const { return doc_; }
  void apply(Device& device) const;
  void apply(std::vector<Level>& levels) const;

 private:
  void read_level(const Place& place, Words rest, const std::vector<Level>& levels);

  struct OfLevel {
    LevelFields fields;
    UtilizationText utilization;
    std::vector<std::function<void(Level&)>> changes;
  };

  std::string name_;
  std::string owner_;  // name in messages
  std::string doc_;
  DeviceText device_;
  std::vector<std::function<void(Device&)>> changes_;
  std::map<std::string, OfLevel, std::less<>> levels_;
};

}  // namespace tandem::machine
