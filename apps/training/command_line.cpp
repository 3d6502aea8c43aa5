// The parser and --help, made from the option table by CLI11.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "apps/training/options.h"

namespace lockstep {
namespace {

std::string range_text(const OptionRow& row) {
  return row.high >= 1e14 ? fmt::format("{} or more", row.low)
                          : fmt::format("from {} to {}", row.low, row.high);
}

// The default as --help shows it.
std::string default_text(const OptionRow& row) {
  if (row.unset[0] != '\0') return row.unset;
  const Options defaults;
  return std::visit([&](auto field) { return fmt::format("{}", defaults.*field); }, row.field);
}

std::string help_text(const OptionRow& row) {
  std::string text = row.help;
  if (!row.choices.empty()) text += fmt::format(" ({})", fmt::join(row.choices, ", "));
  const bool off = std::holds_alternative<bool Options::*>(row.field) && default_text(row) == "false";
  return off ? text : text + fmt::format(" [{}]", default_text(row));
}

// Defaults are part of the description: versions of CLI11 place them differently.
template <class T>
CLI::Option* add_value(CLI::App& app, const OptionRow& row, T& target) {
  CLI::Option* option = app.add_option(std::string("--") + row.name, target, help_text(row));
  option->type_name(std::is_same_v<T, std::string> ? "TEXT"
                    : std::is_same_v<T, double>    ? "NUMBER"
                                                   : "INTEGER");
  return option;
}

CLI::Option* add_value(CLI::App& app, const OptionRow& row, bool& target) {
  const std::string name = target ? fmt::format("--{0},!--no-{0}", row.name) : fmt::format("--{}", row.name);
  return app.add_flag(name, target, help_text(row));
}

void check(const OptionRow& row, const std::string& value) {
  if (row.choices.empty() || std::find(row.choices.begin(), row.choices.end(), value) != row.choices.end())
    return;
  fail(ExitCode::usage, "--{} {}: not known; choose one of {}", row.name, value,
       fmt::join(row.choices, ", "));
}

template <class T>
void check(const OptionRow& row, T value) {
  const auto number = static_cast<double>(value);
  if (number >= row.low && number <= row.high) return;
  fail(ExitCode::usage, "--{} {}: out of range, it takes {}", row.name, value, range_text(row));
}

void check(const OptionRow&, bool) {}

struct Parsed {
  const OptionRow* row;
  CLI::Option* option;
};

void check_all(const std::vector<Parsed>& parsed, const Options& options) {
  for (const auto& [row, option] : parsed) {
    if (option->count() == 0) continue;  // a default may be a mark that no user can type
    const OptionRow& r = *row;
    std::visit([&](auto field) { check(r, options.*field); }, r.field);
  }
}

}  // namespace

std::string parse_command_line(int argc, const char* const* argv, const std::vector<OptionGroup>& groups,
                               const std::string& description, const std::vector<ExtraOption>& extra,
                               Options& options) {
  const std::string program = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "program";
  CLI::App app(description, program);
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.get_formatter()->column_width(34);
  app.set_help_flag("--help", "Print this text");
  bool print_version = false;
  app.add_flag("--version", print_version, "Print the version, the build and its libraries")
      ->configurable(false);
  app.set_config("--config", "", "Read options from this file; the command line wins");
  std::vector<Parsed> parsed;
  for (const OptionRow& row : option_table()) {
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end()) continue;
    CLI::Option* option =
        std::visit([&](auto field) { return add_value(app, row, options.*field); }, row.field);
    option->group(title_of(row.group));
    parsed.push_back({&row, option});
  }
  for (const ExtraOption& row : extra) {
    std::visit(
        [&](auto* target) {
          app.add_option(std::string("--") + row.name, *target, row.help)->capture_default_str();
        },
        row.target);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::usage, "{}. Run {} --help for the options", error.what(), program);
  }
  if (print_version) return version_text();
  check_all(parsed, options);
  options.batch_size_given = app.get_option("--batch-size")->count() > 0;
  return "";
}

}  // namespace lockstep
