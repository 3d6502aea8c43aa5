// The parser and --help, made from the option table by CLI11.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "apps/training/options.h"

namespace lockstep {
namespace {

const char* type_of(const OptionRow& row) {
  if (std::holds_alternative<bool Options::*>(row.field)) return "";
  if (std::holds_alternative<double Options::*>(row.field)) return " NUMBER";
  return std::holds_alternative<std::int64_t Options::*>(row.field) ? " INTEGER" : " TEXT";
}

bool is_on_by_default(const OptionRow& row) {
  const auto* flag = std::get_if<bool Options::*>(&row.field);
  return flag && Options{}.*(*flag);
}

std::string help_line(const std::string& option, const std::string& text) {
  return fmt::format("  {:<30}  {}\n", option, text);
}

std::string choices_text(const std::vector<std::string>& choices) {
  return choices.empty() ? "" : fmt::format(" ({})", fmt::join(choices, ", "));
}

// "  --lr NUMBER    Learning rate after warm-up [0.05]"
std::string help_line(const OptionRow& row) {
  std::string text = row.help + choices_text(row.choices);
  if (row.unset[0] != '\0') {
    text += fmt::format(" [{}]", row.unset);
  } else if (type_of(row)[0] != '\0') {
    const Options defaults;
    text += std::visit([&](auto field) { return fmt::format(" [{}]", defaults.*field); }, row.field);
  } else if (is_on_by_default(row)) {
    text += " [on]";
  }
  const std::string also = is_on_by_default(row) ? fmt::format(", --no-{}", row.name) : "";
  return help_line(fmt::format("--{}{}{}", row.name, type_of(row), also), text);
}

std::string help_text(const std::string& program, const std::string& description,
                      const std::vector<OptionGroup>& groups, const std::vector<ExtraOption>& extra) {
  std::string text = fmt::format("{}\n\nusage: {} [options]\n\n", description, program);
  text += help_line("--help", "Print this text");
  text += help_line("--version", "Print the version, the build and its libraries");
  text += help_line("--config TEXT", "Read options from this file; the command line wins [none]");
  for (const ExtraOption& row : extra) {
    const bool number = std::holds_alternative<std::int64_t*>(row.target);
    std::string value = std::visit([](auto* target) { return fmt::format("{}", *target); }, row.target);
    if (value.empty()) value = "none";
    text += help_line(fmt::format("--{}{}", row.name, number ? " INTEGER" : " TEXT"),
                      fmt::format("{}{} [{}]", row.help, choices_text(row.choices), value));
  }
  for (const OptionGroup group : groups) {
    text += fmt::format("\n{}\n", title_of(group));
    for (const OptionRow& row : option_table()) {
      if (row.group == group) text += help_line(row);
    }
  }
  return text;
}

template <class T>
CLI::Option* add_value(CLI::App& app, const OptionRow& row, T& target) {
  return app.add_option(std::string("--") + row.name, target);
}

CLI::Option* add_value(CLI::App& app, const OptionRow& row, bool& target) {
  const std::string no = is_on_by_default(row) ? fmt::format(",!--no-{}", row.name) : "";
  return app.add_flag(fmt::format("--{}{}", row.name, no), target);
}

// Row: of either table.
template <class Row>
void check(const Row& row, const std::string& value) {
  if (row.choices.empty() || std::find(row.choices.begin(), row.choices.end(), value) != row.choices.end())
    return;
  fail(ExitCode::usage, "--{} {}: not known; choose one of {}", row.name, value,
       fmt::join(row.choices, ", "));
}

template <class Row, class T>
void check_range(const Row& row, T value) {
  const auto number = static_cast<double>(value);
  if (number >= row.low && number <= row.high) return;
  fail(ExitCode::usage, "--{} {}: out of range, it takes {} to {}", row.name, value, row.low, row.high);
}

void check(const OptionRow&, bool) {}
void check(const OptionRow& row, double value) {
  check_range(row, value);
}
template <class Row>
void check(const Row& row, std::int64_t value) {
  check_range(row, value);
}

// The parser takes an empty number for 0; it is more likely to be a shell variable that is not set.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) {
        fail(ExitCode::usage, "{}: its value is empty: give one, or leave the option out",
             option->get_name());
      }
    }
  }
}

struct Parsed {
  const OptionRow* row;
  CLI::Option* option;
};

void check_all(const std::vector<Parsed>& parsed, const Options& options,
               const std::vector<ExtraOption>& extra) {
  for (const ExtraOption& row : extra) {
    std::visit([&](auto* target) { check(row, *target); }, row.target);
  }
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
  app.set_help_flag("--help");
  bool print_version = false;
  app.add_flag("--version", print_version)->configurable(false);
  app.set_config("--config");
  std::vector<Parsed> parsed;
  for (const OptionRow& row : option_table()) {
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end()) continue;
    CLI::Option* option =
        std::visit([&](auto field) { return add_value(app, row, options.*field); }, row.field);
    parsed.push_back({&row, option});
  }
  for (const ExtraOption& row : extra) {
    CLI::Option* option = std::visit(
        [&](auto* target) { return app.add_option(std::string("--") + row.name, *target); }, row.target);
    if (row.bytes) option->transform(CLI::AsSizeValue(false));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return help_text(program, description, groups, extra);
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::usage, "{}. Run {} --help for the options", error.what(), program);
  }
  if (print_version) return version_text();
  refuse_empty_values(app);
  check_all(parsed, options, extra);
  const CLI::Option* batch = app.get_option_no_throw("--batch-size");
  options.batch_size_given = batch && batch->count() > 0;
  return "";
}

}  // namespace lockstep
