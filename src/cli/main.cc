// tandem: plans and runs distributed training. Each command is one file in this directory;
// commands.cc lists them.
#include <fmt/format.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/emphasis.h"
#include "cli/supervise.h"

namespace {

using tandem::UserError;
using tandem::cli::ExitCode;

// Returns the flag of `command` that is nearest to `word`: "--machin" -> "--machine". Returns "" if
// no flag is near.
std::string find_nearest_flag(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options({})) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return tandem::find_nearest(word.substr(0, word.find('=')), names);
}

// Prints what is wrong with the flags of `command`, and an example of its use. `path` has the words
// before its flags, such as "rules show ".
void explain_usage(const CLI::App& command, const std::string& path, const CLI::ParseError& error) {
  if (path.empty()) {
    std::cerr
        << "no command given; `tandem --help` lists the commands (plan, simulate, train, ...)\n";
    return;
  }
  // A missing flag may be one that is misspelt, so unknown flags are reported first.
  bool has_unknown = false;
  for (const auto& word : command.remaining()) {
    if (!word.starts_with("--")) continue;
    has_unknown = true;
    const auto near = find_nearest_flag(command, word);
    std::cerr << fmt::format("unknown flag {}{}\n", word,
                             near.empty() ? "" : " (did you mean " + near + "?)");
  }
  const bool is_reported = has_unknown && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!is_reported) std::cerr << error.what() << "\n";
  const auto footer = command.get_footer();
  const auto example = footer.find("tandem ");
  std::cerr << (example == std::string::npos
                    ? fmt::format("`tandem {}--help` lists the flags.\n", path)
                    : fmt::format("Example: {}\n`tandem {}--help` lists the flags.\n",
                                  footer.substr(example, footer.find('\n', example) - example),
                                  path));
}

// Prints the requested help, or what is wrong with the command or its flags. Returns the exit code.
int report_usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App* command = &app;
  std::string path;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const std::string word = argv[i];
    const auto subcommands = command->get_subcommands({});
    if (subcommands.empty()) break;
    const auto known = std::ranges::find(subcommands, word, &CLI::App::get_name);
    if (known != subcommands.end()) {
      command = *known;
      path += word + " ";
      continue;
    }
    std::vector<std::string> names;
    names.reserve(subcommands.size());
    for (const auto* c : subcommands) names.push_back(c->get_name());
    const auto near = tandem::find_nearest(word, names);
    std::cerr << fmt::format(
        "unknown command '{}{}' ({})\n", path, word,
        near.empty() ? "commands: " + tandem::join(names, ", ") : "did you mean '" + near + "'?");
    return ExitCode::kWrongUsage;
  }
  explain_usage(*command, path, error);
  return ExitCode::kWrongUsage;
}

int report_error(const UserError& error, bool json) {
  if (json) {
    tandem::cli::print_json({{"error",
                              {{"kind", error.kind},
                               {"where", error.where},
                               {"message", error.message},
                               {"hint", error.hint}}}});
  }
  std::cerr << fmt::format("{} {}\n", tandem::cli::make_red("tandem:"), error.what());
  return ExitCode::kCannot;
}

// Returns the arguments with today's names of flags that older versions named differently. They are
// in reverse order, as CLI11 takes them.
std::vector<std::string> read_arguments(int argc, char** argv) {
  constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
      {"--max-rewritings", "--max-rewrites"}};
  std::vector<std::string> out;
  for (int i = argc; i-- > 1;) {
    auto& word = out.emplace_back(argv[i]);
    for (const auto& [old, now] : kRenamed) {
      const bool is_same = word == old || word.starts_with(fmt::format("{}=", old));
      if (is_same) word.replace(0, old.size(), now);
    }
  }
  return out;
}

int run(int argc, char** argv) {
  const bool json =
      std::any_of(argv, argv + argc, [](const char* a) { return std::string_view(a) == "--json"; });
  CLI::App app("Plans and runs distributed training of neural networks.", "tandem");
  app.set_version_flag("--version",
                       json ? "{\n \"name\": \"tandem\",\n \"version\": \"" TANDEM_VERSION "\"\n}"
                            : "tandem " TANDEM_VERSION);
  app.add_flag("--json")->description("with --version: print one JSON document");
  app.require_subcommand(1);
  int exit_code = ExitCode::kDone;
  tandem::cli::add_commands(app, exit_code);
  try {
    app.parse(read_arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    return report_usage_error(app, error, argc, argv);
  } catch (const UserError& error) {
    return report_error(error, json);
  }
  return exit_code;
}

// Retains freed memory in the process. A search allocates and frees the same few hundred megabytes
// many times; the system would have to zero them each time.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMost = 1 << 30;
  mallopt(M_TRIM_THRESHOLD, kMost);
  mallopt(M_MMAP_THRESHOLD, kMost);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

// Returns `code`, or kCannot if the output was not written completely, for example to a full disk.
int check_output_written(int code) {
  std::cout.flush();
  if (std::cout.good() || code != ExitCode::kDone) return code;
  std::cerr << "tandem: cannot write to stdout\n";
  return ExitCode::kCannot;
}

int run_checked(int argc, char** argv) {
  try {
    return check_output_written(run(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "tandem: internal error: " << error.what() << "\n";
    return ExitCode::kCannot;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == tandem::cli::kSupervise) {
    return tandem::cli::supervise({argv, static_cast<std::size_t>(argc)});
  }
  keep_freed_memory();
  const auto code = run_checked(argc, argv);
#ifndef TANDEM_SANITIZE
  // Skips destructors: to free caches piece by piece would take seconds.
  std::fflush(nullptr);
  std::_Exit(code);
#endif
  return code;
}
