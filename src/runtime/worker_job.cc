#include "runtime/worker_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace tandem::runtime {

const char* const kUsage =
    "usage: mpirun -np DEVICES tandem_worker JOB.json\n"
    "       mpirun -np DEVICES tandem_worker --KEY VALUE ...  (keys of a job: --plan PLAN.json "
    "--steps 10 --resume yes)\n"
    "       tandem_worker --visible cuda";

namespace {

using Json = nlohmann::json;

// The value of one key: from the job file, or from a flag, where it is a text.
struct GivenValue {
  std::string name;  // "steps", or "--steps" for a flag
  Json value;
  bool is_flag = false;

  [[noreturn]] void fail(const std::string& expected) const {
    const auto text =
        is_flag ? fmt::format("'{}'", value.get<std::string>()) : tandem::describe_json(value);
    throw UsageError{fmt::format("{} cannot be {}: expected {}", name, text, expected)};
  }
};

void read_value(const GivenValue& given, std::string& out) {
  if (!given.value.is_string()) given.fail("a text");
  out = given.value.get<std::string>();
}

void read_value(const GivenValue& given, std::string& out, const EitherText& either) {
  const auto expected = fmt::format("'{}' or '{}'", either.texts[0], either.texts[1]);
  if (!given.value.is_string()) given.fail(expected);
  const auto text = given.value.get<std::string>();
  if (std::ranges::find(either.texts, text) == either.texts.end()) given.fail(expected);
  out = text;
}

void read_value(const GivenValue& given, bool& out) {
  if (given.is_flag) {
    const auto text = given.value.get<std::string>();
    if (text != "yes" && text != "no") given.fail("'yes' or 'no'");
    out = text == "yes";
    return;
  }
  if (!given.value.is_boolean()) given.fail("true or false");
  out = given.value.get<bool>();
}

void read_value(const GivenValue& given, std::int64_t& out, const LeastNumber& number) {
  std::optional<std::int64_t> found;
  if (given.is_flag) {
    found = parse_int(given.value.get<std::string>());
  } else if (given.value.is_number_integer()) {
    constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
    const bool fits = !given.value.is_number_unsigned() ||
                      given.value.get<std::uint64_t>() <= std::uint64_t{kLargest};
    if (fits) found = given.value.get<std::int64_t>();
  }
  if (!found || *found < number.least) {
    given.fail(fmt::format("an integer of at least {}", number.least));
  }
  out = *found;
}

// Reads integers up to 2^64 - 1 from a file.
void read_value(const GivenValue& given, std::uint64_t& out, const LeastNumber& number) {
  if (given.value.is_number_unsigned()) {
    out = given.value.get<std::uint64_t>();
    return;
  }
  std::int64_t small = 0;
  read_value(given, small, number);
  out = static_cast<std::uint64_t>(small);
}

void read_value(const GivenValue& given, double& out, const LeastNumber& number) {
  std::optional<double> found;
  if (given.is_flag) {
    found = parse_double(given.value.get<std::string>());
  } else if (given.value.is_number()) {
    found = given.value.get<double>();
  }
  if (!found || !(*found >= number.least)) {
    given.fail(fmt::format("a number of at least {}", number.least));
  }
  out = *found;
}

template <class Value>
void read_value(const GivenValue& given, std::optional<Value>& out, const LeastNumber& number) {
  read_value(given, out.emplace(), number);
}

// Sets the member with this key. Returns false if there is none.
bool set_member(WorkerJob& job, std::string_view key, const GivenValue& given) {
  bool is_known = false;
  visit_members(job, [&](const char* name, auto& member, const auto&... values) {
    if (key != name) return;
    is_known = true;
    read_value(given, member, values...);
  });
  return is_known;
}

// Returns a hint for an unknown key: " (did you mean steps?)", or "" if no key is near.
std::string suggest_key(const std::string& key) {
  std::vector<std::string> known;
  const WorkerJob job;
  visit_members(job, [&](const char* name, const auto&...) { known.emplace_back(name); });
  const auto near = find_nearest(key, known);
  return near.empty() ? "" : fmt::format(" (did you mean {}?)", near);
}

void check_members_fit(const WorkerJob& job) {
  if (job.plan.empty() == job.profile.empty()) {
    throw UsageError{"expected exactly one of the keys plan and profile"};
  }
  if (job.resume && job.checkpoints.empty()) throw UsageError{"resume requires checkpoint"};
}

}  // namespace

WorkerJob parse_job(std::string_view text, const std::string& path) {
  const auto json = read_json<Json>(text, "job", path);
  if (!json.is_object()) throw UserError("job", path, "is not a JSON object");
  WorkerJob out;
  try {
    for (const auto& [key, value] : json.items()) {
      if (set_member(out, key, {.name = key, .value = value})) continue;
      throw UsageError{
          fmt::format("'{}' is not a key of jobs{}", escape_json_key(key), suggest_key(key))};
    }
    check_members_fit(out);
  } catch (const UsageError& error) {
    throw UserError("job", path, error.message);
  }
  return out;
}

WorkerJob parse_flags(std::span<char*> argv) {
  WorkerJob out;
  for (std::size_t i = 1; i < argv.size(); i += 2) {
    const std::string flag = argv[i];
    if (!flag.starts_with("--")) {
      throw UsageError{fmt::format("expected a flag, but '{}' is none", flag)};
    }
    auto key = flag.substr(2);
    std::ranges::replace(key, '-', '_');
    if (i + 1 == argv.size()) throw UsageError{fmt::format("{} requires a value", flag)};
    if (!set_member(out, key, {.name = flag, .value = argv[i + 1], .is_flag = true})) {
      throw UsageError{fmt::format("unknown flag {}{}", flag, suggest_key(key))};
    }
  }
  check_members_fit(out);
  return out;
}

}  // namespace tandem::runtime
