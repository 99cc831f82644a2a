#include "runtime/arguments.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tandem::runtime {

const char* const kUsage =
    "usage: mpirun -np DEVICES tandem_worker PLAN.json [--steps K] [--seed S] [--lr X] "
    "[--momentum no] [--timeout SECONDS] [--seconds X] [--progress yes|no] [--notes "
    "yes|no] [--checkpoint DIR] "
    "[--checkpoint-every STEPS] [--resume yes|no] [--data PATH] [--measure yes|no] "
    "[--device cpu|cuda]\n"
    "       mpirun -np DEVICES tandem_worker --profile full|quick [--threads N] [--timeout "
    "SECONDS] "
    "[--progress yes|no]\n"
    "       tandem_worker --visible cuda";

namespace {

// A flag and its value.
struct Given {
  std::string flag, value;

  [[nodiscard]] UsageError make_error(const std::string& wanted) const {
    return {fmt::format("{} cannot be '{}': {}", flag, value, wanted)};
  }
  [[nodiscard]] std::int64_t parse_integer(std::int64_t least) const {
    const auto number = parse_int(value);
    if (!number || *number < least)
      throw make_error(fmt::format("expected an integer of at least {}", least));
    return *number;
  }
  [[nodiscard]] double parse_number(double least) const {
    const auto number = parse_double(value);
    if (!number || !(*number >= least))
      throw make_error(fmt::format("expected a number of at least {}", least));
    return *number;
  }
  [[nodiscard]] bool parse_yes_no() const {
    if (value != "yes" && value != "no") throw make_error("expected 'yes' or 'no'");
    return value == "yes";
  }
};

void set_flag(Arguments& out, const Given& given) {
  const auto& flag = given.flag;
  if (flag == "--steps") {
    out.steps = given.parse_integer(1);
  } else if (flag == "--seed") {
    out.seed = static_cast<std::uint64_t>(given.parse_integer(0));
  } else if (flag == "--timeout") {
    out.timeout = given.parse_integer(1);
  } else if (flag == "--seconds") {
    out.seconds = given.parse_number(0);
  } else if (flag == "--progress") {
    out.progress = given.parse_yes_no();
  } else if (flag == "--notes") {
    out.notes = given.parse_yes_no();
  } else if (flag == "--data") {
    out.data = given.value;
  } else if (flag == "--device") {
    if (given.value != "cpu" && given.value != "cuda")
      throw given.make_error("expected 'cpu' or 'cuda'");
    out.device = given.value;
  } else if (flag == "--checkpoint") {
    out.checkpoints = given.value;
  } else if (flag == "--checkpoint-every") {
    out.every = given.parse_integer(1);
  } else if (flag == "--resume") {
    out.resume = given.parse_yes_no();
  } else if (flag == "--measure") {
    out.measure = given.parse_yes_no();
  } else if (flag == "--profile") {
    if (given.value != "full" && given.value != "quick")
      throw given.make_error("expected 'full' or 'quick'");
    out.profile = given.value;
  } else if (flag == "--threads") {
    out.threads = given.parse_integer(1);
  } else if (flag == "--lr") {
    out.rate = given.parse_number(0);
  } else if (flag == "--momentum") {
    if (given.value != "no") throw given.make_error("momentum is not supported, expected 'no'");
  } else {
    throw UsageError{fmt::format("unknown flag {}", flag)};
  }
}

}  // namespace

Arguments parse_arguments(std::span<char*> argv) {
  Arguments out;
  for (std::size_t i = 1; i < argv.size(); ++i) {
    const std::string flag = argv[i];
    if (!flag.starts_with("-") || flag == "-") {
      if (!out.plan.empty())
        throw UsageError{fmt::format("expected one plan, but '{}' is a second one", flag)};
      out.plan = flag;
      continue;
    }
    if (i + 1 == argv.size()) throw UsageError{fmt::format("{} requires a value", flag)};
    set_flag(out, {flag, argv[++i]});
  }
  if (out.plan.empty() == out.profile.empty()) throw UsageError{"expected a plan or --profile"};
  if (out.resume && out.checkpoints.empty()) throw UsageError{"--resume requires --checkpoint"};
  return out;
}

}  // namespace tandem::runtime
