#include "validate/record.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "validate/relative_memory.h"

namespace tandem::validate {

namespace {

using nlohmann::ordered_json;

constexpr double kLargest = 1e18;  // products of a few such numbers stay finite

// Top-level fields. The fields after the gap describe where a record is from.
const std::set<std::string, std::less<>> kTopLevel = {
    "id",      "group",    "kind",  "source",  "model",
    "system",  "parallel", "batch", "options", "measured",

    "derived", "hardware", "notes", "url",     "predicted_by"};

// Returns `text` without question marks at its end. "full?" is an assumption of the record's
// compiler and is taken as "full"; "?" is empty.
std::string_view strip_question_marks(std::string_view text) {
  text = trim(text);
  while (text.ends_with('?')) text = trim(text.substr(0, text.size() - 1));
  return text;
}

// One of a record's objects, with fields by name. The first unreadable field is noted in the
// record, and on destruction so are the fields that were never read.
class RecordSection {
 public:
  RecordSection(const ordered_json& record, const char* name, Record& out)
      : name_(name), unreadable_(out.unreadable), unread_(out.unread) {
    const auto at = record.find(name);
    if (at == record.end() || at->is_null()) return;
    if (at->is_object()) {
      fields_ = &*at;
    } else {
      note(fmt::format("'{}' is {} and must be an object", name, describe_json(*at)));
    }
  }

  ~RecordSection() {
    if (fields_ == nullptr) return;
    for (const auto& [key, value] : fields_->items()) {
      if (!value.is_null() && !asked_.contains(key)) {
        unread_.push_back(fmt::format("{}.{}", name_, escape_json_key(key)));
      }
    }
  }
  RecordSection(const RecordSection&) = delete;
  RecordSection& operator=(const RecordSection&) = delete;

  [[nodiscard]] std::optional<double> number(const char* key) const {
    const auto* value = find(key);
    if (value == nullptr) return std::nullopt;
    std::optional<double> out;
    if (value->is_number()) out = value->get<double>();
    if (value->is_string()) {
      const auto text = strip_question_marks(value->get_ref<const std::string&>());
      if (text.empty()) return std::nullopt;
      out = parse_double(text);
    }
    if (out && std::isfinite(*out) && *out >= 0 && *out <= kLargest) return out;
    note(fmt::format("'{}.{}' is {} and must be a non-negative number", name_, key,
                     describe_json(*value)));
    return std::nullopt;
  }

  // Returns an integer from `least`. A 0 counts as absent if `least` is above 0.
  [[nodiscard]] Count count(const char* key, std::int64_t least = 1) const {
    const auto value = number(key);
    if (!value || (*value == 0 && least > 0)) return std::nullopt;
    if (*value == std::floor(*value) && *value <= 1e12) return static_cast<std::int64_t>(*value);
    note(
        fmt::format("'{}.{}' is {} and must be an integer", name_, key, describe_json(*find(key))));
    return std::nullopt;
  }

  [[nodiscard]] std::string text(const char* key) const {
    const auto* value = find(key);
    if (value == nullptr) return {};
    if (value->is_string()) {
      return std::string(strip_question_marks(value->get_ref<const std::string&>()));
    }
    if (value->is_boolean() || value->is_number()) return value->dump();
    note(fmt::format("'{}.{}' is {} and must be a string", name_, key, describe_json(*value)));
    return {};
  }

  // Returns true for true, 1 and any word that does not mean no: "full".
  [[nodiscard]] bool flag(const char* key) const {
    const auto word = text(key);
    return !word.empty() && word != "false" && word != "0" && word != "none" && word != "no" &&
           word != "off";
  }

 private:
  [[nodiscard]] const ordered_json* find(const char* key) const {
    if (fields_ == nullptr) return nullptr;
    asked_.insert(key);
    const auto at = fields_->find(key);
    return at == fields_->end() || at->is_null() ? nullptr : &*at;
  }
  void note(std::string what) const {
    if (unreadable_.empty()) unreadable_ = std::move(what);
  }

  const char* name_;
  std::string& unreadable_;
  std::vector<std::string>& unread_;
  const ordered_json* fields_ = nullptr;
  mutable std::set<std::string, std::less<>> asked_;
};

ModelFacts read_model(const RecordSection& s) {
  return {.type = s.text("type"),
          .name = s.text("name"),
          .layers = s.count("layers"),
          .hidden = s.count("hidden"),
          .heads = s.count("heads"),
          .kv_heads = s.count("kv_heads"),
          .ffn = s.count("ffn"),
          .vocab = s.count("vocab"),
          .seq_len = s.count("seq_len"),
          .image = s.count("image"),
          .billions = s.number("params_b")};
}

SystemFacts read_system(const RecordSection& s) {
  return {.gpu = s.text("gpu"),
          .gpus_per_node = s.count("gpus_per_node"),
          .n_gpus = s.count("n_gpus"),
          .intra = s.number("intra_uni_GBps"),
          .inter = s.number("inter_uni_GBps_per_gpu")};
}

ParallelFacts read_parallel(const RecordSection& s) {
  return {.tp = s.count("tp"),
          .pp = s.count("pp"),
          .dp = s.count("dp"),
          .cp = s.count("cp"),
          .ep = s.count("ep"),
          .vpp = s.count("vpp"),
          .zero = s.count("zero", 0),
          .sp = s.flag("sp"),
          .fsdp = s.flag("fsdp")};
}

BatchFacts read_batch(const RecordSection& s) {
  const auto either = [&](const char* a, const char* b) {
    const auto first = s.count(a);
    const auto second = s.count(b);
    return first ? first : second;
  };
  return {.global = either("global_seqs", "global_samples"),
          .local = either("local_seqs", "local_samples"),
          .micro_size = either("micro_seqs", "micro_samples"),
          .micro_batches = either("micro_batches", "grad_accum"),
          .tokens = s.number("tokens")};
}

OptionFacts read_options(const RecordSection& s) {
  std::string attention;
  for (const char* key : {"kernel", "attn", "attention"}) {
    const auto word = s.text(key);
    if (!word.empty()) attention += (attention.empty() ? "" : ", ") + word;
  }
  return {.dtype = s.text("dtype"), .recompute = s.text("recompute"), .attention = attention};
}

// Returns the points that have both a size, in "mib" or "bytes", and a time, in "time_us" or
// "time_s".
std::vector<CurvePoint> read_curve(const ordered_json& points) {
  const auto amount = [](const ordered_json& point, const char* key) -> std::optional<double> {
    const auto at = point.find(key);
    if (at == point.end() || !at->is_number()) return std::nullopt;
    const auto value = at->get<double>();
    if (!(value > 0) || value > kLargest) return std::nullopt;
    return value;
  };
  std::vector<CurvePoint> out;
  for (const auto& point : points) {
    if (!point.is_object()) continue;
    auto size = amount(point, "bytes");
    if (const auto mib = amount(point, "mib")) size = *mib * 1024 * 1024;
    auto time = amount(point, "time_s");
    if (const auto us = amount(point, "time_us")) time = *us * 1e-6;
    if (size && time) out.push_back({Bytes{*size}, Seconds{*time}});
  }
  return out;
}

std::vector<Metric> read_measured(const ordered_json& record, std::string& unreadable) {
  std::vector<Metric> out;
  const auto at = record.find("measured");
  if (at == record.end() || at->is_null()) return out;
  if (!at->is_object()) {
    if (unreadable.empty()) {
      unreadable = fmt::format("'measured' is {} and must be an object", describe_json(*at));
    }
    return out;
  }
  for (const auto& [name, value] : at->items()) {
    auto& metric = out.emplace_back(Metric{name, {}});
    if (value.is_number() && std::abs(value.get<double>()) <= kLargest) {
      metric.value = value.get<double>();
    }
    if (value.is_boolean()) metric.value = value.get<bool>();
    if (value.is_array()) {
      if (auto curve = read_curve(value); !curve.empty()) metric.value = std::move(curve);
    }
  }
  return out;
}

// Returns the text of a required field. `where` is the name of the record in messages.
std::string read_required_text(const ordered_json& record, const char* key,
                               const std::string& where) {
  const auto at = record.find(key);
  if (at == record.end() || at->is_null()) {
    throw UserError("records", where, fmt::format("'{}' is missing", key));
  }
  if (!at->is_string() || at->get_ref<const std::string&>().empty()) {
    throw UserError("records", where,
                    fmt::format("'{}' is {} and must be a string", key, describe_json(*at)));
  }
  return at->get<std::string>();
}

Record read_record(const ordered_json& json, const std::string& where) {
  if (!json.is_object()) {
    throw UserError("records", where,
                    fmt::format("is {} and must be an object", describe_json(json)));
  }
  Record out;
  out.id = read_required_text(json, "id", where);
  const auto named = fmt::format("{} ('{}')", where, out.id);
  out.group = read_required_text(json, "group", named);
  out.kind = read_required_text(json, "kind", named);
  if (const auto at = json.find("source"); at != json.end() && at->is_string()) {
    out.source = at->get<std::string>();
  }
  out.model = read_model({json, "model", out});
  out.system = read_system({json, "system", out});
  out.parallel = read_parallel({json, "parallel", out});
  out.batch = read_batch({json, "batch", out});
  out.options = read_options({json, "options", out});
  out.measured = read_measured(json, out.unreadable);
  for (const auto& [key, value] : json.items()) {
    if (!kTopLevel.contains(key)) out.unread.push_back(escape_json_key(key));
  }
  return out;
}

}  // namespace

std::vector<Record> parse_records(std::string_view text, const std::string& source) {
  const auto json = read_json<ordered_json>(text, "records", source);
  const auto list = json.is_object() ? json.find("records") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array()) {
    throw UserError("records", source, "has no list 'records'",
                    "{\"records\":[{\"id\",\"group\",\"kind\",...}]}");
  }
  std::vector<Record> out;
  out.reserve(list->size());
  std::set<std::string> ids;
  for (std::size_t i = 0; i < list->size(); ++i) {
    out.push_back(read_record((*list)[i], fmt::format("{}: record {}", source, i + 1)));
    const bool is_new = ids.insert(out.back().id).second;
    if (!is_new) out.back().unreadable = "an earlier record has the same id";
  }
  complete_relative_records(out);
  return out;
}

}  // namespace tandem::validate
