// What a run can be told. One table (option_table) makes the parser, --help, the configuration file and the
// list that is compared across ranks, so that no option can be known to one of them and not to the others.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "comm/verify.h"
#include "core/device.h"
#include "core/dtype.h"

namespace lockstep {

struct Options {
  // model
  std::string model = "resnet50";
  std::string stem = "imagenet";
  std::int64_t channels = 64;
  double residual_gamma = 1.0;
  // data
  std::string data = "synthetic";
  std::int64_t limit_train = kAll;
  std::int64_t limit_test = kAll;
  // recipe
  std::int64_t epochs = 4;
  std::int64_t batch_size = 32;
  std::int64_t global_batch = kUnset;
  double lr = 0.01;
  std::string schedule = "cosine";
  std::int64_t step_epochs = 30;
  double step_gamma = 0.1;
  double warmup_epochs = 0.0;
  bool linear_scaling = false;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 5e-4;
  bool no_bias_decay = false;
  double label_smoothing = 0.0;
  std::int64_t seed = 0;
  std::int64_t max_skipped_steps = 10;
  // job
  std::string device = "auto";
  std::int64_t timeout = 300;
  // compute
  std::string dtype = "fp32";
  std::int64_t threads = kUnset;
  bool cuda_graph = false;
  bool autotune = false;
  // communication
  double first_bucket_cap_mb = 1.0;  // small, so that communication starts early
  double bucket_cap_mb = 25.0;
  bool overlap = true;
  std::string allreduce = "auto";
  // run
  std::string checkpoint_dir;
  std::int64_t checkpoint_interval = kUnset;
  std::int64_t keep_checkpoints = 3;
  std::string resume;
  bool evaluate_only = false;
  std::string metrics;
  std::string dump_indices;
  bool checksums = false;
  std::string trace;

  static constexpr std::int64_t kAll = -1;   // no limit
  static constexpr std::int64_t kUnset = 0;  // derived from others

  // Not an option itself: --batch-size was on the command line or in the configuration file.
  bool batch_size_given = false;
};

enum class OptionGroup { model, data, recipe, job, compute, communication, run };
const char* title_of(OptionGroup group);

struct OptionRow {
  using Field =
      std::variant<std::string Options::*, std::int64_t Options::*, double Options::*, bool Options::*>;

  const char* name;  // without the dashes; a flag that is on by default also gets --no-<name>
  OptionGroup group = OptionGroup::model;
  Field field = {};
  const char* help = "";
  std::vector<std::string> choices = {};  // of a string; empty: any
  double low = 0, high = 0;               // of a number, inclusive
  const char* unset = "";                 // what the default means where it is no value of its own
  bool path = false;  // may differ between ranks: what is in the files is compared instead
};

const std::vector<OptionRow>& option_table();

// An upper bound of counts that no run reaches: products of two still fit an int64.
inline constexpr double kMany = 1e9;

// An option of one program only (step_bench --steps). A text without choices is a path.
struct ExtraOption {
  const char* name;
  const char* help;
  std::variant<std::int64_t*, std::string*> target;
  double low = 0, high = kMany;           // of a number, inclusive
  std::vector<std::string> choices = {};  // of a text
  bool bytes = false;                     // a number that may be written as 64K or 1GiB, powers of 1024
};

// Parses argv with the rows of `groups`, reads --config FILE (the command line wins over the file).
// Returns the text to print where --help or --version was asked for, else "". Error(usage) for anything else.
std::string parse_command_line(int argc, const char* const* argv, const std::vector<OptionGroup>& groups,
                               const std::string& description, const std::vector<ExtraOption>& extra,
                               Options& options);

// Why a rank, local_rank of local_ranks on this host, cannot have a CUDA device of its own, the one of its
// local rank, and the remedy. Empty: it can. Error(device) where CUDA fails.
std::string why_not_cuda(int local_rank, int local_ranks);

// What the options mean in a job of `ranks` processes, `local_ranks` of them on this host: the batch of a
// rank, the device, the threads. no_cuda: why some rank cannot have a CUDA device; "auto" is then the CPU.
// Error(usage) naming options that contradict each other.
Options resolve(const Options& given, int ranks, int local_ranks, const std::string& no_cuda);

// The device of a rank, local_rank on its host, from resolved options.
Device device_of(const Options& resolved, int local_rank);

// The type of activations and working weights.
DType compute_type(const Options& options);

// The configuration file: one "key = value" a line (TOML), every option of the table. parse_command_line
// reads it.
std::string to_config(const Options& options, const std::vector<OptionGroup>& groups);

// (name, value) of everything that must be equal on all ranks: all but paths.
Items verified_items(const Options& options);
Items verified_items(const std::vector<ExtraOption>& extra);

// The text of --version: build id and the libraries.
std::string version_text();

}  // namespace lockstep
