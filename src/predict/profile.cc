#include "predict/profile.h"

#include <stdexcept>

#include "base/check.h"

namespace tandem::predict {

namespace {

using Json = nlohmann::ordered_json;
using machine::Step;

Step parse_kind(const std::string& text) {
  const auto kind = machine::parse_collective(text);
  if (!kind) throw std::invalid_argument("unknown collective: " + text);
  return *kind;
}

DType parse_dtype(const std::string& text) {
  DType out{};
  if (!parse_attribute(text, out)) throw std::invalid_argument("unknown element type: " + text);
  return out;
}

}  // namespace

Work MeasuredOperator::work() const {
  const auto at = [&](std::size_t i) { return static_cast<double>(shape.at(i)); };
  if (name == "add") return {Flops{at(0)}, 3 * at(0) * get_element_size(dtype)};
  CHECK(name == "linear", name);
  const double operands = at(0) * at(2) + at(1) * at(2);
  return {Flops{2 * at(0) * at(1) * at(2)}, (operands + at(0) * at(1)) * get_element_size(dtype)};
}

Json to_json(const Profile& profile) {
  Json operators = Json::array();
  for (const auto& o : profile.operators) {
    operators.push_back({{"operator", o.name},
                         {"dtype", name(o.dtype)},
                         {"shape", o.shape},
                         {"devices", o.devices},
                         {"seconds", o.time.value},
                         {"flops_per_s", o.work().flops.value / o.time.value},
                         {"bytes_per_s", o.work().bytes.value / o.time.value}});
  }
  Json collectives = Json::array();
  for (const auto& c : profile.collectives) {
    collectives.push_back({{"collective", machine::name(c.kind)},
                           {"bytes", static_cast<std::int64_t>(c.bytes.value)},
                           {"devices", profile.devices},
                           {"seconds", c.time.value}});
  }
  return {{"devices", profile.devices},
          {"threads", profile.threads},
          {"resident_bytes", profile.resident.value},
          {"operators", operators},
          {"collectives", collectives}};
}

Profile parse_profile(const std::string& text) {
  const auto json = Json::parse(text);
  Profile out;
  out.devices = json.at("devices");
  out.threads = json.at("threads");
  out.resident = Bytes{json.at("resident_bytes")};
  for (const auto& o : json.at("operators")) {
    out.operators.push_back({.name = o.at("operator"),
                             .dtype = parse_dtype(o.at("dtype")),
                             .shape = o.at("shape"),
                             .devices = o.at("devices"),
                             .time = Seconds{o.at("seconds")}});
  }
  for (const auto& c : json.at("collectives")) {
    out.collectives.push_back(
        {parse_kind(c.at("collective")), Bytes{c.at("bytes")}, Seconds{c.at("seconds")}});
  }
  return out;
}

}  // namespace tandem::predict
