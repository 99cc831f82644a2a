// tandem completion: prints a script with which a shell completes tandem's command lines. The
// script is generated from the declared commands, so a new flag needs no change here.
#include <fmt/format.h>

#include <iostream>

#include "base/text.h"
#include "cli/command.h"
#include "machine/parse.h"
#include "ops/registry.h"
#include "rewrite/collection.h"
#include "strategies/setting.h"

namespace tandem::cli {

namespace {

using Words = std::vector<std::string>;

// The values that one place of a command line may have: one of `words`, or a file.
struct Expected {
  Words words = {};
  bool files = false;
};

struct Flag {
  Words names;  // with dashes
  std::string doc;
  bool takes_value = false;
  Expected values = {};
};

struct Command {
  std::string path;  // "rules show"; empty: tandem itself
  std::vector<std::pair<std::string, std::string>> subcommands;  // names and descriptions
  std::vector<Flag> flags;
  Expected operands;  // the same for all operands
};

template <class Specs>
Words list_names(const Specs& specs) {
  Words out;
  for (const auto* spec : specs) out.push_back(spec->name);
  return out;
}

// Returns the built-in machines as "summit:", which a size follows.
Words list_machine_words() {
  Words out;
  for (const auto& m : machine::list_builtin_machines()) out.push_back(m.name + ":");
  return out;
}

Words list_rule_words() {
  Words out;
  for (const auto& rule : rewrite::shipped_rules()) out.push_back(rule.rule.name);
  return out;
}

Words list_strategy_words() {
  auto out = strategies::family_names();
  out.insert(out.end(), {"best_baseline", "taso+flexflow"});
  return out;
}

// Returns the values of a flag or an operand. They follow from its name, or else from the type in
// its help.
Expected infer_values(const std::string& command, const std::string& name,
                      const CLI::Option& option) {
  if (name == "--machine") return {list_machine_words(), true};
  if (name == "--strategy") return {list_strategy_words()};
  if (name == "--grid" || name == "--memory") return {};
  if (name == "model") return {list_names(models::all_models()), true};
  if (name == "name" && command == "machines") {
    auto words = list_machine_words();
    for (auto& word : words) word.pop_back();
    return {words, true};
  }
  if (name == "name" && command == "ops") return {list_names(ops::all_ops())};
  if (name == "name" && command == "strategies") return {strategies::family_names()};
  if (name == "name") return {list_rule_words()};
  const auto type = option.get_type_name();
  if (const auto open = type.find('{'); open != std::string::npos) {
    const auto list = type.substr(open + 1, type.find('}') - open - 1);
    Words words;
    for (const auto word : split(list, ',')) words.emplace_back(word);
    return {words};
  }
  return {{}, type.starts_with("TEXT")};
}

// Appends `app`, whose path is `path`, and all its subcommands to `out`.
void collect_commands(const CLI::App& app, const std::string& path, std::vector<Command>& out) {
  Command command{.path = path, .subcommands = {}, .flags = {}, .operands = {}};
  for (const auto* option : app.get_options()) {
    if (option->nonpositional()) {
      Flag flag{.names = {}, .doc = option->get_description()};
      for (const auto& n : option->get_lnames()) flag.names.push_back("--" + n);
      for (const auto& n : option->get_snames()) flag.names.push_back("-" + n);
      flag.takes_value = option->get_items_expected_max() > 0;
      if (flag.takes_value) flag.values = infer_values(path, flag.names.front(), *option);
      command.flags.push_back(std::move(flag));
    } else {
      auto values = infer_values(path, option->get_name(true), *option);
      std::ranges::move(values.words, std::back_inserter(command.operands.words));
      command.operands.files |= values.files;
    }
  }
  const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const auto* s : subcommands) {
    command.subcommands.emplace_back(s->get_name(), s->get_description());
  }
  out.push_back(std::move(command));
  for (const auto* s : subcommands) {
    collect_commands(*s, path.empty() ? s->get_name() : path + " " + s->get_name(), out);
  }
}

// Returns `text` quoted as one word of fish, where \' is an escape inside '...'.
std::string quote_for_fish(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

Words list_flag_words(const Command& command) {
  Words out;
  for (const auto& flag : command.flags)
    out.insert(out.end(), flag.names.begin(), flag.names.end());
  return out;
}

Words list_subcommand_words(const Command& command) {
  Words out;
  for (const auto& [name, doc] : command.subcommands) out.push_back(name);
  return out;
}

// Returns `text` quoted as one word for the shell: it's -> 'it'\''s'.
std::string quote_for_shell(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Returns the branches of a `case` that set `command` if a word is a command.
std::string make_command_branches(const std::vector<Command>& commands) {
  std::string out;
  for (const auto& c : commands) {
    if (!c.path.empty())
      out += fmt::format("      {}) command={} ;;\n", quote_for_shell(c.path),
                         quote_for_shell(c.path));
  }
  return out;
}

// The branches of `case "$command $flag"` for flags that take a value, and of `case $command`.
struct CaseBranches {
  std::string of_flags, of_commands;
};

CaseBranches make_case_branches(const std::vector<Command>& commands) {
  CaseBranches out;
  for (const auto& c : commands) {
    for (const auto& flag : c.flags) {
      if (!flag.takes_value) continue;
      Words patterns;
      for (const auto& n : flag.names) patterns.push_back(quote_for_shell(c.path + " " + n));
      out.of_flags +=
          fmt::format("    {}) is_value=1 words={} files={} ;;\n", join(patterns, "|"),
                      quote_for_shell(join(flag.values.words, " ")), flag.values.files ? 1 : 0);
    }
    const auto words = c.subcommands.empty() ? c.operands.words : list_subcommand_words(c);
    out.of_commands +=
        fmt::format("    {}) flags={} words={} files={} ;;\n", quote_for_shell(c.path),
                    quote_for_shell(join(list_flag_words(c), " ")),
                    quote_for_shell(join(words, " ")), c.operands.files ? 1 : 0);
  }
  return out;
}

std::string make_bash_script(const std::vector<Command>& commands) {
  const auto [of_flags, of_commands] = make_case_branches(commands);
  return "# bash completion for tandem, generated by `tandem completion bash`.\n"
         "_tandem() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local command='' words='' flags='' files=0 is_value='' i\n"
         "  COMPREPLY=()\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case \"${command:+$command }${COMP_WORDS[i]}\" in\n" +
         make_command_branches(commands) +
         "    esac\n"
         "  done\n"
         "  if [[ $current == = ]]; then current=''\n"
         "  elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  elif [[ $current == : || $previous == : ]]; then return\n"
         "  fi\n"
         "  case \"$command $previous\" in\n" +
         of_flags +
         "  esac\n"
         "  [[ $is_value ]] || case $command in\n" +
         of_commands +
         "  esac\n"
         "  [[ $current != -* ]] || { words=$flags files=0; }\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  ((!files)) || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "
         "\"$current\")\n"
         "  [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *: ]] || compopt -o nospace "
         "2>/dev/null\n"
         "}\n"
         "complete -o filenames -F _tandem tandem\n";
}

std::string make_zsh_script(const std::vector<Command>& commands) {
  const auto [of_flags, of_commands] = make_case_branches(commands);
  return "#compdef tandem\n"
         "# zsh completion for tandem, generated by `tandem completion zsh`.\n"
         "_tandem() {\n"
         "  local command='' flags='' files=0 is_value='' i\n"
         "  local line=(\"${words[@]}\") words=''\n"
         "  for ((i = 2; i < CURRENT; ++i)); do\n"
         "    case \"${command:+$command }${line[i]}\" in\n" +
         make_command_branches(commands) +
         "    esac\n"
         "  done\n"
         "  case \"$command ${line[CURRENT-1]}\" in\n" +
         of_flags +
         "  esac\n"
         "  [[ -n $is_value ]] || case $command in\n" +
         of_commands +
         "  esac\n"
         "  if [[ ${line[CURRENT]} == -* ]]; then\n"
         "    compadd -- ${=flags}\n"
         "    return\n"
         "  fi\n"
         "  local all=(${=words})\n"
         "  compadd -- ${all:#*:}\n"
         "  compadd -S '' -- ${(M)all:#*:}\n"
         "  ((files)) && _files\n"
         "}\n"
         "if [[ $funcstack[1] == _tandem ]]; then _tandem \"$@\"; else compdef _tandem tandem; "
         "fi\n";
}

// Returns one line for every command, flag and operand: fish shows their descriptions.
std::string make_fish_script(const std::vector<Command>& commands) {
  std::string out =
      "# fish completion for tandem, generated by `tandem completion fish`.\n"
      "# Returns whether the command on the line is this one.\n"
      "function __tandem_at\n"
      "  set -l command ''\n"
      "  for word in (commandline -opc)[2..]\n"
      "    switch (string trim \"$command $word\")\n";
  for (const auto& c : commands) {
    if (!c.path.empty()) {
      out += fmt::format("      case {0}\n        set command {0}\n", quote_for_fish(c.path));
    }
  }
  out +=
      "    end\n"
      "  end\n"
      "  test \"$command\" = \"$argv\"\n"
      "end\n"
      "complete -c tandem -f\n";
  for (const auto& c : commands) {
    const auto at =
        fmt::format("complete -c tandem -n {}", quote_for_fish("__tandem_at " + c.path));
    for (const auto& [name, doc] : c.subcommands) {
      out += fmt::format("{} -a {} -d {}\n", at, name, quote_for_fish(doc));
    }
    if (!c.operands.words.empty()) {
      out += fmt::format("{} -a {}\n", at, quote_for_fish(join(c.operands.words, " ")));
    }
    if (c.operands.files) out += at + " -F\n";
    for (const auto& flag : c.flags) {
      out += at;
      for (const auto& n : flag.names) {
        out += n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1);
      }
      if (flag.takes_value) {
        out += flag.values.files ? " -r -F" : " -x";
        if (!flag.values.words.empty()) {
          out += " -a " + quote_for_fish(join(flag.values.words, " "));
        }
      }
      out += fmt::format(" -d {}\n", quote_for_fish(flag.doc));
    }
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app, int& /*exit_code*/) {
  struct CompletionFlags {
    bool json = false;
    std::string shell;
  };
  auto flags = std::make_shared<CompletionFlags>();
  auto* command = add_command(app, "completion", "print a shell completion script for tandem",
                              "completion bash >~/.local/share/bash-completion/completions/tandem",
                              flags->json);
  command->add_option("shell", flags->shell, "shell: bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([flags, &app] {
    std::vector<Command> commands;
    collect_commands(app, "", commands);
    const auto script = flags->shell == "bash"  ? make_bash_script(commands)
                        : flags->shell == "zsh" ? make_zsh_script(commands)
                                                : make_fish_script(commands);
    if (flags->json) return print_json({{"shell", flags->shell}, {"script", script}});
    std::cout << script;
  });
}

}  // namespace tandem::cli
