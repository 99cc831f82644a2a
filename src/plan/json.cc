#include "plan/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "graph/text.h"
#include "machine/machine.h"

namespace tandem::plan {

namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

std::string hex(Hash h) { return fmt::format("{:016x}", h); }

class Reader {
 public:
  Reader(const Json& json, const std::string& source) : json_(json), source_(source) {}

  template <class T>
  T get(const char* key) const {
    const auto at = json_.find(key);
    if (at == json_.end()) fail(key, "is missing");
    try {
      return at->get<T>();
    } catch (const Json::exception&) {
      fail(key, "has the wrong type");
    }
  }

  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw UserError("plan", source_, fmt::format("key '{}' {}", key, message));
  }

 private:
  const Json& json_;
  const std::string& source_;
};

std::vector<machine::Layout> read_layouts(const Reader& reader, const graph::Graph& pcg) {
  const auto texts = reader.get<std::unordered_map<std::string, std::string>>("layouts");
  std::vector<machine::Layout> out;
  for (auto id : pcg.ids()) {
    const auto& name = pcg.node(id).name;
    const auto at = texts.find(name);
    if (at == texts.end()) reader.fail("layouts", fmt::format("has no entry for %{}", name));
    const auto layout = machine::parse_layout(at->second);
    if (!layout)
      reader.fail("layouts", fmt::format("gives %{} '{}', which is no layout", name, at->second));
    out.push_back(*layout);
  }
  return out;
}

std::int64_t read_batch(const Reader& reader) {
  const auto batch = reader.get<Json>("batch");
  if (!batch.is_number_integer() || batch.get<std::int64_t>() < 1) {
    reader.fail("batch", "must be a whole number from 1");
  }
  return batch.get<std::int64_t>();
}

void read_prediction(const Reader& reader, Plan& plan) {
  const auto predicted = reader.get<std::unordered_map<std::string, double>>("predicted");
  const auto value = [&](const char* key) {
    const auto at = predicted.find(key);
    if (at == predicted.end()) reader.fail("predicted", fmt::format("has no '{}'", key));
    return at->second;
  };
  plan.iteration = Seconds{value("iteration_s")};
  plan.memory = Bytes{value("memory_bytes")};
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json layouts = Json::object();
  const auto& pcg = plan.mapped.pcg;
  for (auto id : pcg.ids()) layouts[pcg.node(id).name] = to_text(plan.mapped.layouts[id.index()]);
  const Json out = {
      {"tandem_plan", kVersion},
      {"model", plan.model},
      {"machine", plan.machine},
      {"strategy", plan.strategy},
      {"batch", plan.batch},
      {"optimizer", name(plan.optimizer)},
      {"dtype", name(plan.dtype)},
      {"graph", to_text(pcg)},
      {"layouts", layouts},
      {"derivation", Json::array()},
      {"hashes",
       {{"graph", hex(erase_parallelism(pcg).identity_hash())},
        {"machine", hex(hash_of(machine::load_machine(plan.machine)))}}},
      {"predicted",
       {{"iteration_s", plan.iteration.value},
        {"memory_bytes", static_cast<std::int64_t>(plan.memory.value)}}},
  };
  return out.dump(1) + "\n";
}

Plan parse_plan(std::string_view text, const std::string& source) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw UserError("plan", source, "is not a JSON object");
  const Reader reader(json, source);
  if (const int version = reader.get<int>("tandem_plan"); version != kVersion) {
    reader.fail("tandem_plan", fmt::format("is {} and this program reads {}", version, kVersion));
  }
  Plan plan;
  plan.model = reader.get<std::string>("model");
  plan.machine = reader.get<std::string>("machine");
  plan.strategy = reader.get<std::string>("strategy");
  plan.batch = read_batch(reader);
  const auto optimizer = reader.get<std::string>("optimizer");
  if (optimizer != "sgd" && optimizer != "adam") reader.fail("optimizer", "must be sgd or adam");
  plan.optimizer = optimizer == "sgd" ? Optimizer::kSgd : Optimizer::kAdam;
  if (!parse_attribute(reader.get<std::string>("dtype"), plan.dtype) || is_integer(plan.dtype)) {
    reader.fail("dtype", "must be one of fp64 fp32 bf16 fp16");
  }
  plan.mapped.pcg = graph::parse_graph(reader.get<std::string>("graph"), source + ":graph");
  plan.mapped.layouts = read_layouts(reader, plan.mapped.pcg);
  const auto hashes = reader.get<std::unordered_map<std::string, std::string>>("hashes");
  const auto hash = hashes.find("graph");
  if (hash == hashes.end() ||
      hash->second != hex(erase_parallelism(plan.mapped.pcg).identity_hash())) {
    reader.fail("hashes", "does not have the hash of the plan's own graph");
  }
  for (auto id : plan.mapped.pcg.ids()) {
    const auto& node = plan.mapped.pcg.node(id);
    if (!is_integer(node.type.dtype) && node.type.dtype != plan.dtype) {
      reader.fail("dtype", fmt::format("is {} and %{} is {}", name(plan.dtype), node.name,
                                       name(node.type.dtype)));
    }
  }
  read_prediction(reader, plan);
  try {
    check_mapped(plan.mapped, machine::Digits(machine::load_machine(plan.machine)));
  } catch (const UserError& e) {
    throw UserError(e.kind, source + ": " + e.where, e.message, e.hint);
  }
  return plan;
}

}  // namespace tandem::plan
