#include "apps/training/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/process.h"
#include "core/host.h"
#include "kernels/backend.h"

namespace lockstep {
namespace {

constexpr double kLargestSeed = 1e15;  // below 2^53: a double holds it
constexpr double kHuge = 3e38;         // the largest float, about

std::string value_text(const Options& options, const OptionRow& row) {
  return std::visit([&](auto field) { return fmt::format("{}", options.*field); }, row.field);
}

// A TOML string. A literal ('...') takes everything but its own quote; in "..." a backslash has a meaning.
std::string quoted(const std::string& text) {
  return text.find('\'') == std::string::npos ? fmt::format("'{}'", text) : fmt::format("\"{}\"", text);
}

bool is_unset(const Options& options, const OptionRow& row) {
  const auto* number = std::get_if<std::int64_t Options::*>(&row.field);
  return number && row.unset[0] != '\0' && options.*(*number) == Options{}.*(*number);
}

void refuse_contradictions(const Options& o, int ranks) {
  if (o.global_batch != Options::kUnset) {
    if (o.global_batch % ranks != 0) {
      fail(ExitCode::usage, "--global-batch {} cannot be shared by {} ranks: choose a multiple of {}",
           o.global_batch, ranks, ranks);
    }
    if (o.batch_size_given && o.batch_size * ranks != o.global_batch) {
      fail(ExitCode::usage,
           "--batch-size {} on {} ranks makes {}, but --global-batch says {}: give one of the two",
           o.batch_size, ranks, o.batch_size * ranks, o.global_batch);
    }
  }
  if (o.nesterov && o.momentum == 0) {
    fail(ExitCode::usage, "--nesterov needs momentum: give --momentum above 0, or leave out --nesterov");
  }
  if (o.warmup_epochs > static_cast<double>(o.epochs)) {
    fail(ExitCode::usage, "--warmup-epochs {} is longer than the run (--epochs {})", o.warmup_epochs,
         o.epochs);
  }
  if (o.checkpoint_interval != Options::kUnset && o.checkpoint_dir.empty()) {
    fail(ExitCode::usage, "--checkpoint-interval needs a place to write to: give --checkpoint-dir DIR");
  }
  if (o.resume == "auto" && o.checkpoint_dir.empty()) {
    fail(ExitCode::usage,
         "--resume auto looks for checkpoints in --checkpoint-dir: give it, or --resume FILE");
  }
  if (o.evaluate_only && o.resume.empty()) {
    fail(ExitCode::usage, "--evaluate-only evaluates a checkpoint: give --resume FILE, or --resume auto");
  }
  if (o.evaluate_only && !o.dump_indices.empty()) {
    fail(ExitCode::usage, "--dump-indices writes what training sees, but --evaluate-only does not train");
  }
}

using O = Options;

std::vector<OptionRow> model_rows() {
  return {
      {.name = "model",
       .field = &O::model,
       .help = "Network",
       .choices = {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}},
      {.name = "stem",
       .field = &O::stem,
       .help = "First layers: 7x7 stride 2 and pooling, or 3x3 stride 1",
       .choices = {"imagenet", "cifar"}},
      {.name = "residual-gamma",
       .field = &O::residual_gamma,
       .help = "Initial weight of each block's last batch norm",
       .high = 1e3},
  };
}

std::vector<OptionRow> data_rows() {
  return {
      {.name = "data",
       .field = &O::data,
       .help = "\"synthetic\" (built in), or the directory of CIFAR-10's binary files",
       .path = true},
      {.name = "limit-train",
       .field = &O::limit_train,
       .help = "Train on the first N samples only",
       .high = kMany,
       .unset = "all"},
      {.name = "limit-test",
       .field = &O::limit_test,
       .help = "Evaluate on the first N test samples only",
       .low = 1,
       .high = kMany,
       .unset = "all"},
  };
}

std::vector<OptionRow> recipe_rows() {
  return {
      {.name = "epochs",
       .field = &O::epochs,
       .help = "Passes over the training samples",
       .low = 1,
       .high = kMany},
      {.name = "batch-size",
       .field = &O::batch_size,
       .help = "Samples a step on each rank",
       .low = 1,
       .high = kMany},
      {.name = "global-batch",
       .field = &O::global_batch,
       .help = "Samples a step on all ranks; sets --batch-size",
       .low = 1,
       .high = kMany,
       .unset = "batch size times ranks"},
      {.name = "lr", .field = &O::lr, .help = "Learning rate after warm-up", .high = kHuge},
      {.name = "schedule",
       .field = &O::schedule,
       .help = "How the learning rate falls",
       .choices = {"constant", "step", "cosine"}},
      {.name = "step-epochs",
       .field = &O::step_epochs,
       .help = "Schedule step: epochs between two falls",
       .low = 1,
       .high = kMany},
      {.name = "step-gamma",
       .field = &O::step_gamma,
       .help = "Schedule step: factor of each fall",
       .high = 1},
      {.name = "warmup-epochs",
       .field = &O::warmup_epochs,
       .help = "Epochs of linear warm-up",
       .high = kMany},
      {.name = "linear-scaling",
       .field = &O::linear_scaling,
       .help = "Multiply --lr by the global batch / 256"},
      {.name = "momentum", .field = &O::momentum, .help = "SGD momentum", .high = 1},
      {.name = "nesterov", .field = &O::nesterov, .help = "Nesterov momentum"},
      {.name = "weight-decay",
       .field = &O::weight_decay,
       .help = "L2 penalty added to the gradients",
       .high = 1e3},
      {.name = "no-bias-decay",
       .field = &O::no_bias_decay,
       .help = "Leave batch norm and biases out of weight decay"},
      {.name = "label-smoothing",
       .field = &O::label_smoothing,
       .help = "Label smoothing of the training loss",
       .high = 1},
      {.name = "seed",
       .field = &O::seed,
       .help = "Seed of initialisation, order and augmentation",
       .high = kLargestSeed},
      {.name = "max-skipped-steps",
       .field = &O::max_skipped_steps,
       .help = "Stop after this many steps in a row with a loss that is not finite",
       .low = 1,
       .high = kMany},
  };
}

std::vector<OptionRow> machine_rows() {
  return {
      {.name = "device",
       .field = &O::device,
       .help = "Where the work runs",
       .choices = {"auto", "cpu", "cuda", "reference"}},
      {.name = "dtype",
       .field = &O::dtype,
       .help = "Type of activations and working weights",
       .choices = {"fp32", "bf16"}},
      {.name = "threads",
       .field = &O::threads,
       .help = "CPU threads of each rank",
       .low = 1,
       .high = 4096,
       .unset = "granted cores / ranks of the host"},
      {.name = "first-bucket-cap-mb",
       .field = &O::first_bucket_cap_mb,
       .help = "MiB that close the first gradient bucket",
       .high = 1e6},
      {.name = "bucket-cap-mb",
       .field = &O::bucket_cap_mb,
       .help = "MiB that close each further gradient bucket",
       .high = 1e6},
      {.name = "overlap", .field = &O::overlap, .help = "Average gradients while backward is still running"},
      {.name = "timeout",
       .field = &O::timeout,
       .help = "Seconds that a collective may wait for a rank",
       .low = 1,
       .high = 1e6},
  };
}

std::vector<OptionRow> run_rows() {
  return {
      {.name = "checkpoint-dir",
       .field = &O::checkpoint_dir,
       .help = "Where checkpoints are written",
       .unset = "none",
       .path = true},
      {.name = "checkpoint-interval",
       .field = &O::checkpoint_interval,
       .help = "Steps between checkpoints",
       .low = 1,
       .high = kMany,
       .unset = "at the end of each epoch"},
      {.name = "keep-checkpoints",
       .field = &O::keep_checkpoints,
       .help = "How many of the newest checkpoints stay",
       .low = 1,
       .high = kMany},
      {.name = "resume",
       .field = &O::resume,
       .help = "Go on from this checkpoint; \"auto\": the newest valid one",
       .unset = "start fresh"},
      {.name = "evaluate-only",
       .field = &O::evaluate_only,
       .help = "Evaluate the checkpoint of --resume and stop"},
      {.name = "metrics",
       .field = &O::metrics,
       .help = "Write a JSON line for each step and epoch",
       .unset = "none",
       .path = true},
      {.name = "dump-indices",
       .field = &O::dump_indices,
       .help = "Write which samples each rank trains on",
       .unset = "none",
       .path = true},
      {.name = "checksums", .field = &O::checksums, .help = "Print each rank's checksums after each epoch"},
      {.name = "trace",
       .field = &O::trace,
       .help = "Write a timeline in Chrome's trace format",
       .unset = "none",
       .path = true},
  };
}

}  // namespace

const char* title_of(OptionGroup group) {
  switch (group) {
    case OptionGroup::model:
      return "Model";
    case OptionGroup::data:
      return "Data";
    case OptionGroup::recipe:
      return "Recipe";
    case OptionGroup::machine:
      return "Machine";
    case OptionGroup::run:
      return "Run";
  }
  return "";
}

const std::vector<OptionRow>& option_table() {
  static const std::vector<OptionRow> table = [] {
    std::vector<OptionRow> all;
    const auto add = [&](OptionGroup group, const std::vector<OptionRow>& rows) {
      for (const OptionRow& row : rows) all.emplace_back(row).group = group;
    };
    add(OptionGroup::model, model_rows());
    add(OptionGroup::data, data_rows());
    add(OptionGroup::recipe, recipe_rows());
    add(OptionGroup::machine, machine_rows());
    add(OptionGroup::run, run_rows());
    return all;
  }();
  return table;
}

Options resolve(const Options& given, int ranks, int local_ranks) {
  refuse_contradictions(given, ranks);
  Options options = given;
  if (options.global_batch != Options::kUnset) options.batch_size = options.global_batch / ranks;
  if (options.device == "auto") options.device = has_cpu_backend() ? "cpu" : "reference";
  if (options.threads == Options::kUnset)
    options.threads = std::max(1, granted_cores() / std::max(1, local_ranks));
  return options;
}

Device device_of(const Options& resolved, int local_rank, int local_ranks, int cuda_devices) {
  const int threads = static_cast<int>(resolved.threads);
  if (resolved.device == "cpu") return {.kind = DeviceKind::cpu, .threads = threads};
  if (resolved.device == "reference") return {.kind = DeviceKind::reference, .threads = threads};
  // None at all: the backend says why.
  if (cuda_devices > 0 && local_ranks > cuda_devices) {
    fail(ExitCode::device,
         "--device cuda: {} ranks run on this host and each needs a CUDA device of its own, but rank {} of "
         "them sees {}: "
         "start at most {} on a host, let every rank see all devices (CUDA_VISIBLE_DEVICES), or use --device "
         "cpu",
         local_ranks, local_rank, cuda_devices, cuda_devices);
  }
  return {.kind = DeviceKind::cuda, .index = local_rank, .threads = threads};
}

std::string to_config(const Options& options, const std::vector<OptionGroup>& groups) {
  std::string text;
  for (const OptionRow& row : option_table()) {
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end()) continue;
    const bool batch_follows =
        std::string_view(row.name) == "batch-size" && options.global_batch != Options::kUnset;
    if (is_unset(options, row)) {
      text += fmt::format("# {}: {}\n", row.name, row.unset);
    } else if (batch_follows) {
      text += fmt::format("# batch-size: {} (global-batch / ranks)\n", options.batch_size);
    } else {
      const std::string value = value_text(options, row);
      const bool is_string = std::holds_alternative<std::string Options::*>(row.field);
      if (is_string && value.empty()) {
        text += fmt::format("# {}: {}\n", row.name, row.unset);
      } else {
        text += fmt::format("{} = {}\n", row.name, is_string ? quoted(value) : value);
      }
    }
  }
  return text;
}

Items verified_items(const Options& options) {
  Items items;
  for (const OptionRow& row : option_table()) {
    if (!row.path) items.emplace_back(std::string("--") + row.name, value_text(options, row));
  }
  return items;
}

Items verified_items(const std::vector<ExtraOption>& extra) {
  Items items;
  for (const ExtraOption& row : extra) {
    const auto* number = std::get_if<std::int64_t*>(&row.target);
    if (number) items.emplace_back(std::string("--") + row.name, fmt::format("{}", **number));
  }
  return items;
}

std::string version_text() {
  return fmt::format("lockstep {}\nbuild     {}\nMPI       {}\nCPU       {}\nCUDA      {}\n", version(),
                     build_id(), mpi_library(), cpu_backend_libraries(), cuda_backend_libraries());
}

}  // namespace lockstep
