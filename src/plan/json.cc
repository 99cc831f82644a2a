#include "plan/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/json.h"
#include "base/text.h"
#include "graph/text.h"
#include "machine/machine.h"
#include "plan/micro_batches.h"
#include "plan/parallelization_derivation.h"

namespace tandem::plan {

namespace {

using Json = nlohmann::json;

constexpr int kVersion = 4;
// Files of version 3 do not have the steps of the parallelization.
constexpr int kVersionWithPipelines = 3;
// Files of version 2 have no pipeline nodes either.
constexpr int kOldestVersion = 2;
constexpr int kLargestVersion = 1'000'000;

std::string to_hex(Hash h) { return fmt::format("{:016x}", h); }

// Key of "recompute" in older files.
constexpr const char* kOldRecompute = "remake";

// Reads keys of a JSON object and reports errors with the file and the key.
class PlanReader {
 public:
  PlanReader(const Json& json, const std::string& source) : json_(json), source_(source) {}

  template <class T>
  T get(const char* key) const {
    const auto at = json_.find(key);
    if (at == json_.end()) fail(key, "is missing");
    // The conversion of a number outside the range of int is undefined.
    constexpr bool kWhole = std::is_same_v<T, int>;
    if (kWhole && (!at->is_number_integer() || *at < 0 || *at > kLargestVersion)) {
      fail(key, "has the wrong type");
    }
    try {
      return at->get<T>();
    } catch (const Json::exception&) {
      fail(key, "has the wrong type");
    }
  }

  // Throws UserError for a key of an object in the plan that is not in `known`. Otherwise a
  // misspelt optional key would be taken for a missing one.
  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }

  void check_keys(const Json& object, const std::string& within,
                  std::initializer_list<std::string_view> known) const {
    if (!object.is_object()) return;  // the reader of this key reports it
    for (const auto& [key, value] : object.items()) {
      if (std::ranges::find(known, key) == known.end()) {
        fail(within + key, "is not a key of plans");
      }
    }
  }

  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw UserError("plan", source_, fmt::format("key '{}' {}", key, message));
  }

 private:
  const Json& json_;
  const std::string& source_;
};

using Texts = std::unordered_map<std::string, std::string>;

[[noreturn]] void refuse_other_layouts(const PlanReader& reader, const Texts& texts,
                                       const graph::Graph& pcg) {
  std::set<std::string> others;
  for (const auto& [name, text] : texts) others.insert(name);
  for (auto id : pcg.ids()) others.erase(pcg.node(id).name);
  reader.fail("layouts", fmt::format("names %{}, which the graph does not have", *others.begin()));
}

std::vector<machine::Layout> read_layouts(const PlanReader& reader, const graph::Graph& pcg) {
  const auto texts = reader.get<Texts>("layouts");
  std::vector<machine::Layout> out;
  for (auto id : pcg.ids()) {
    const auto& name = pcg.node(id).name;
    const auto at = texts.find(name);
    if (at == texts.end()) reader.fail("layouts", fmt::format("has no entry for %{}", name));
    const auto layout = machine::parse_layout(at->second);
    if (!layout)
      reader.fail("layouts", fmt::format("gives %{} the invalid layout '{}'", name, at->second));
    out.push_back(*layout);
  }
  if (texts.size() > out.size()) refuse_other_layouts(reader, texts, pcg);
  return out;
}

std::int64_t read_count(const PlanReader& reader, const Json& json, const char* key,
                        std::int64_t least = 1) {
  const auto at = json.find(key);
  constexpr std::int64_t kLargest = std::int64_t{1} << 40U;
  if (at == json.end()) reader.fail(key, "is missing");
  if (!at->is_number_integer() || *at < least || *at > kLargest) {
    reader.fail(key, fmt::format("must be an integer of at least {}", least));
  }
  return at->get<std::int64_t>();
}

// Returns the digits whose places are the pipeline's ranks: "-ss--".
std::string format_ranks(machine::DigitMask ranks, std::size_t digits) {
  std::string out(digits, '-');
  for (std::size_t i = 0; i < digits; ++i) {
    if ((ranks >> i & 1U) != 0) out[i] = 's';
  }
  return out;
}

Json schedule_to_json(const Schedule& s, std::size_t digits) {
  return {{"order", name(s.order)},
          {"micro_batches", s.micro_batches},
          {"stages", s.stages},
          {"ranks", format_ranks(s.digits, digits)},
          {"reduce_each", s.reduce_each},
          {"whole_gradients", s.whole_gradients},
          {"master", s.precision.master ? "fp32" : "none"},
          {"gradients", s.precision.wide_gradients ? "fp32" : "weights"},
          {"semantics", name(s.semantics)},
          {"bucket_bytes", static_cast<std::int64_t>(s.bucket.value)},
          {"ring", s.ring}};
}

Schedule read_schedule(const PlanReader& reader) {
  const auto json = reader.get<Json>("schedule");
  if (!json.is_object()) reader.fail("schedule", "has the wrong type");
  Schedule out;
  const auto text = [&](const char* key) {
    const auto at = json.find(key);
    if (at == json.end() || !at->is_string()) reader.fail(key, "must be a string");
    return at->get<std::string>();
  };
  const auto order = parse_order(text("order"));
  if (!order) reader.fail("order", "must be gpipe, 1f1b or interleaved");
  out.order = *order;
  out.micro_batches = read_count(reader, json, "micro_batches");
  out.stages = read_count(reader, json, "stages");
  constexpr std::int64_t kMost = 4096;
  if (out.stages > kMost) reader.fail("stages", fmt::format("must be at most {}", kMost));
  if (out.order == Order::kInterleaved && out.stages == 1) {
    reader.fail("order", "is interleaved, but there is only one stage");
  }
  const auto ranks = text("ranks");
  if (ranks.size() > machine::Digits::kMax || ranks.find_first_not_of("-s") != std::string::npos) {
    reader.fail("ranks", "must have one '-' or 's' per digit");
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == 's') out.digits |= machine::DigitMask{1} << i;
  }
  const auto each = json.find("reduce_each");
  if (each == json.end() || !each->is_boolean())
    reader.fail("reduce_each", "must be true or false");
  out.reduce_each = each->get<bool>();
  // Plans older than this key lack it.
  const auto semantics =
      json.contains("semantics") ? parse_semantics(text("semantics")) : Semantics::kSynchronous;
  if (!semantics) reader.fail("semantics", "must be synchronous or delayed-1");
  out.semantics = *semantics;
  const auto flag = [&](const char* key, bool& value) {
    const auto at = json.find(key);
    if (at == json.end()) return;
    if (!at->is_boolean()) reader.fail(key, "must be true or false");
    value = at->get<bool>();
  };
  flag("ring", out.ring);
  flag("whole_gradients", out.whole_gradients);
  // Returns whether the key's word is `first`, not `second`. Returns false if the key is missing.
  const auto is_first = [&](const char* key, std::string_view first, std::string_view second) {
    if (!json.contains(key)) return false;
    const auto word = text(key);
    if (word != first && word != second) {
      reader.fail(key, fmt::format("must be {} or {}", first, second));
    }
    return word == first;
  };
  out.precision.master = is_first("master", "fp32", "none");
  out.precision.wide_gradients = is_first("gradients", "fp32", "weights");
  if (json.contains("bucket_bytes")) {
    out.bucket = Bytes{static_cast<double>(read_count(reader, json, "bucket_bytes", 0))};
  }
  return out;
}

void check_stages(const PlanReader& reader, const MappedGraph& mapped) {
  std::vector<bool> is_used(static_cast<std::size_t>(mapped.schedule.stages));
  for (const auto stage : mapped.stage) is_used[stage] = true;
  const auto idle = std::ranges::find(is_used, false);
  if (idle == is_used.end()) return;
  reader.fail("schedule.stages", fmt::format("is {}, but stage {} has no nodes",
                                             mapped.schedule.stages, idle - is_used.begin()));
}

// Checks that some input has a dimension of the batch's size.
void check_batch(const PlanReader& reader, const Plan& plan) {
  std::optional<std::int64_t> first;
  for (auto id : plan.mapped.pcg.ids()) {
    const auto& node = plan.mapped.pcg.node(id);
    if (!is_input(node) || node.type.shape.rank() == 0) continue;
    const auto& sizes = node.type.shape.sizes;
    if (!first) first = sizes[0];
    if (std::ranges::find(sizes, plan.batch) != sizes.end()) return;
  }
  if (first) {
    reader.fail("batch", fmt::format("is {}, but the inputs of the graph have {} samples",
                                     plan.batch, *first));
  }
}

// Reads the stages and the recomputed nodes, which the file lists by name.
void read_stages_and_recomputed(const PlanReader& reader, MappedGraph& mapped) {
  std::unordered_map<std::string, std::size_t> index;
  for (auto id : mapped.pcg.ids()) index[mapped.pcg.node(id).name] = id.index();
  const auto find = [&](const char* key, const std::string& name) {
    const auto at = index.find(name);
    if (at == index.end())
      reader.fail(key, fmt::format("names %{}, which the graph does not have", name));
    return at->second;
  };
  mapped.stage.assign(mapped.pcg.size(), 0);
  mapped.recompute.assign(mapped.pcg.size(), false);
  for (const auto& [name, stage] : reader.get<std::unordered_map<std::string, Json>>("stages")) {
    const bool known = stage.is_number_integer() && stage >= 0 && stage < mapped.schedule.stages;
    if (!known) reader.fail("stages", fmt::format("gives %{} a stage that does not exist", name));
    mapped.stage[find("stages", name)] = stage.get<std::uint16_t>();
  }
  check_stages(reader, mapped);
  const char* recompute = reader.has(kOldRecompute) ? kOldRecompute : "recompute";
  if (recompute == kOldRecompute && reader.has("recompute")) {
    reader.fail(kOldRecompute, "is the older name of 'recompute', which is there, too");
  }
  for (const auto& name : reader.get<std::vector<std::string>>(recompute)) {
    const auto at = find(recompute, name);
    if (mapped.recompute[at]) reader.fail(recompute, fmt::format("names %{} twice", name));
    mapped.recompute[at] = true;
  }
}

void read_prediction(const PlanReader& reader, Plan& plan) {
  const auto predicted = reader.get<std::unordered_map<std::string, double>>("predicted");
  const auto value = [&](const char* key) {
    const auto at = predicted.find(key);
    if (at == predicted.end()) reader.fail("predicted", fmt::format("has no '{}'", key));
    if (at->second < 0) {
      reader.fail(fmt::format("predicted.{}", key), "must be a number of at least 0");
    }
    return at->second;
  };
  plan.iteration = Seconds{value("iteration_s")};
  plan.memory = Bytes{value("memory_bytes")};
}

Json parse_object(std::string_view text, const std::string& source) {
  auto json = read_json<Json>(text, "plan", source);
  if (!json.is_object()) throw UserError("plan", source, "is not a JSON object");
  return json;
}

// Reads all but the mapped graph and the prediction.
Plan read_origin(const PlanReader& reader, const Json& json) {
  if (const int version = reader.get<int>("tandem_plan");
      version < kOldestVersion || version > kVersion) {
    reader.fail("tandem_plan", fmt::format("is {}, but this program reads versions {} to {}",
                                           version, kOldestVersion, kVersion));
  }
  Plan plan;
  plan.model = reader.get<std::string>("model");
  plan.machine = reader.get<std::string>("machine");
  plan.strategy = reader.get<std::string>("strategy");
  plan.batch = read_count(reader, json, "batch");
  const auto optimizer = parse_optimizer(reader.get<std::string>("optimizer"));
  if (!optimizer) reader.fail("optimizer", "must be sgd, momentum or adam");
  plan.optimizer = *optimizer;
  if (!parse_attribute(reader.get<std::string>("dtype"), plan.dtype) || is_integer(plan.dtype)) {
    reader.fail("dtype", "must be fp64, fp32, bf16 or fp16");
  }
  return plan;
}

void check_keys(const PlanReader& reader, const Json& json) {
  reader.check_keys(json, "",
                    {"tandem_plan", "model", "machine", "strategy", "batch", "optimizer", "dtype",
                     "graph", "layouts", "schedule", "stages", "recompute", kOldRecompute,
                     "derivation", "parallelization", "rules", "hashes", "predicted"});
  const auto part = [&](const char* key) { return json.value(key, Json()); };
  reader.check_keys(part("schedule"), "schedule.",
                    {"order", "micro_batches", "stages", "ranks", "reduce_each", "whole_gradients",
                     "master", "gradients", "semantics", "bucket_bytes", "ring"});
  reader.check_keys(part("parallelization"), "parallelization.", {"cuts", "ways", "without"});
  reader.check_keys(part("hashes"), "hashes.", {"graph", "machine"});
  reader.check_keys(part("predicted"), "predicted.", {"iteration_s", "memory_bytes"});
}

Json derived_to_json(const std::vector<Derived>& all) {
  Json out = Json::array();
  for (const auto& derived : all) {
    Json steps = Json::array();
    for (const auto& step : derived.steps) steps.push_back(to_text(step));
    Json one{{"at", derived.places}, {"steps", steps}};
    if (derived.replicas > 1) one["copies"] = derived.replicas;
    out.push_back(one);
  }
  return out;
}

std::vector<Derived> read_derived(const PlanReader& reader, const Json& within, const char* key) {
  std::vector<Derived> out;
  const auto name = fmt::format("parallelization.{}", key);
  try {
    for (const auto& one : within.at(key)) {
      reader.check_keys(one, name + ".", {"at", "steps", "copies"});
      Derived derived;
      derived.places = one.at("at").get<std::vector<std::string>>();
      for (const auto& step : one.at("steps").get<std::vector<std::string>>()) {
        derived.steps.push_back(parse_rule_step(step));
      }
      if (one.contains("copies")) derived.replicas = read_count(reader, one, "copies");
      out.push_back(std::move(derived));
    }
  } catch (const Json::exception&) {
    reader.fail(name, "has the wrong type");
  } catch (const UserError& e) {
    if (e.kind != "derivation") throw;
    reader.fail(name, e.message);
  }
  return out;
}

Parallelization read_parallelization(const PlanReader& reader) {
  const auto json = reader.get<Json>("parallelization");
  Parallelization out{.cuts = read_derived(reader, json, "cuts"),
                      .paths = read_derived(reader, json, "ways")};
  try {
    out.without = json.at("without").get<std::vector<std::string>>();
  } catch (const Json::exception&) {
    reader.fail("parallelization.without", "has the wrong type");
  }
  return out;
}

// Reads the derivation and its rules. They are absent if the model's graph is not rewritten.
void read_derivation(const PlanReader& reader, const Json& json, Plan& plan) {
  const auto version = reader.get<int>("tandem_plan");
  if (version == kVersion) plan.parallelization = read_parallelization(reader);
  if (version >= kVersionWithPipelines) plan.pipeline_steps.emplace();
  if (!json.contains("derivation")) return;
  for (const auto& step : reader.get<std::vector<std::string>>("derivation")) {
    try {
      plan.derivation.push_back(rewrite::parse_step(step));
    } catch (const UserError& e) {
      reader.fail("derivation", e.message);
    }
  }
  const auto first = std::ranges::find_if(plan.derivation, is_pipeline_step);
  if (first != plan.derivation.end() && !plan.pipeline_steps) {
    reader.fail("derivation", "has pipeline nodes, which version 2 of the format does not support");
  }
  if (plan.pipeline_steps) {
    plan.pipeline_steps->assign(first, plan.derivation.end());
    plan.derivation.erase(first, plan.derivation.end());
  }
  if (json.contains("rules")) plan.rules = reader.get<std::vector<std::string>>("rules");
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json layouts = Json::object();
  const auto written = add_pipeline_nodes(plan.mapped);
  const auto& pcg = written.pcg;
  const auto erased = erase_parallelism(pcg);
  Json stages = Json::object();
  Json recompute = Json::array();
  for (auto id : pcg.ids()) {
    const auto& name = pcg.node(id).name;
    layouts[name] = to_text(written.layouts[id.index()]);
    if (const auto stage = written.stage[id.index()]; stage != 0) stages[name] = stage;
    if (written.recompute[id.index()]) recompute.push_back(name);
  }
  const auto digits = plan.mapped.layouts.empty() ? 0 : plan.mapped.layouts[0].count();
  Json derivation = Json::array();
  for (const auto& step : plan.derivation) derivation.push_back(to_text(step));
  const auto cut = find_micro_batched(plan.mapped);
  for (const auto& step : make_pipeline_steps(erased, cut)) derivation.push_back(to_text(step));
  auto rules = plan.rules;
  if (!cut.empty() && std::ranges::find(rules, pipeline_rule()) == rules.end()) {
    rules.push_back(pipeline_rule());
  }
  const auto machine = machine::load_machine(plan.machine);
  const auto parallel = find_parallelization(plan.mapped, make_digits(plan, machine));
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
      {"schedule", schedule_to_json(plan.mapped.schedule, digits)},
      {"stages", stages},
      {"recompute", recompute},
      {"derivation", derivation},
      {"parallelization",
       {{"cuts", derived_to_json(parallel.cuts)},
        {"ways", derived_to_json(parallel.paths)},
        {"without", parallel.without}}},
      {"rules", rules},
      {"hashes",
       {{"graph", to_hex(erased.identity_hash())}, {"machine", to_hex(hash_machine(machine))}}},
      {"predicted",
       {{"iteration_s", plan.iteration.value},
        {"memory_bytes", static_cast<std::int64_t>(plan.memory.value)}}},
  };
  return out.dump(1) + "\n";
}

Plan parse_origin(std::string_view text, const std::string& source) {
  const auto json = parse_object(text, source);
  return read_origin(PlanReader(json, source), json);
}

bool is_plan(std::string_view text) {
  return trim(text).starts_with('{') && text.find("\"tandem_plan\"") != std::string_view::npos;
}

Plan parse_plan(std::string_view text, const std::string& source) {
  const auto json = parse_object(text, source);
  const PlanReader reader(json, source);
  Plan plan = read_origin(reader, json);
  check_keys(reader, json);
  plan.mapped.pcg = graph::parse_graph(reader.get<std::string>("graph"), source + ":graph");
  plan.mapped.layouts = read_layouts(reader, plan.mapped.pcg);
  plan.mapped.schedule = read_schedule(reader);
  read_stages_and_recomputed(reader, plan.mapped);
  if (reader.get<int>("tandem_plan") >= kVersionWithPipelines) {
    try {
      plan.mapped = remove_pipeline_nodes(plan.mapped);
    } catch (const UserError& e) {
      throw UserError(e.kind, source + ": " + e.where, e.message, e.hint);
    }
  }
  read_derivation(reader, json, plan);
  check_batch(reader, plan);
  const auto hashes = reader.get<Texts>("hashes");
  const auto hash = hashes.find("graph");
  if (hash == hashes.end() ||
      hash->second != to_hex(erase_parallelism(plan.mapped.pcg).identity_hash())) {
    reader.fail("hashes", "does not have the hash of the graph of this plan");
  }
  for (auto id : plan.mapped.pcg.ids()) {
    const auto& node = plan.mapped.pcg.node(id);
    if (!is_integer(node.type.dtype) && node.type.dtype != plan.dtype) {
      reader.fail("dtype", fmt::format("is {}, but %{} is {}", name(plan.dtype), node.name,
                                       name(node.type.dtype)));
    }
  }
  read_prediction(reader, plan);
  try {
    check_mapped(plan.mapped, make_digits(plan, machine::load_machine(plan.machine)));
  } catch (const UserError& e) {
    throw UserError(e.kind, source + ": " + e.where, e.message, e.hint);
  }
  return plan;
}

}  // namespace tandem::plan
