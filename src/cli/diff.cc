// tandem diff: prints how two plans differ in cost and layout.
#include <fmt/format.h>

#include <iostream>

#include "cli/read_plan.h"
#include "report/plan_diff.h"

namespace tandem::cli {

namespace {

struct DiffFlags {
  bool json = false;
  std::string a, b;
};

void diff_plans(const DiffFlags& flags) {
  const auto a = read_and_lower(flags.a);
  const auto b = read_and_lower(flags.b);
  const auto diff = report::compare_plans(make_plan_view(a), make_plan_view(b));
  if (flags.json) {
    Json out{{"a", describe_plan(a.plan)}, {"b", describe_plan(b.plan)}};
    out.update(report::diff_json(diff));
    return print_json(out);
  }
  std::cout << fmt::format("a: {}: {}\nb: {}: {}\n\n", flags.a, make_plan_title(a), flags.b,
                           make_plan_title(b))
            << report::diff_text(diff);
}

}  // namespace

void add_diff(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<DiffFlags>();
  auto* command = add_command(app, "diff", "compare the cost and the layouts of two plans",
                              "diff a.json b.json", flags->json);
  command->add_option("a", flags->a, "plan file, like a.json")->required();
  command->add_option("b", flags->b, "second plan file")->required();
  command->callback([flags] { diff_plans(*flags); });
}

}  // namespace tandem::cli
