#include "apps/training/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/process.h"
#include "core/host.h"
#include "kernels/backend.h"

namespace lockstep {
namespace {

constexpr double kMany = 1e15;  // an upper bound of counts that no run reaches
constexpr double kHuge = 3e38;  // the largest float, about

std::string value_text(const Options& options, const OptionRow& row) {
  return std::visit([&](auto field) { return fmt::format("{}", options.*field); }, row.field);
}

// A TOML string. A literal ('...') takes everything but its own quote.
std::string quoted(const std::string& text) {
  return text.find('"') == std::string::npos ? fmt::format("\"{}\"", text) : fmt::format("'{}'", text);
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
  using G = OptionGroup;
  using O = Options;
  static const std::vector<OptionRow> table = {
      {"model",
       G::model,
       &O::model,
       "Network",
       {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}},
      {"stem",
       G::model,
       &O::stem,
       "First layers: 7x7 stride 2 and pooling, or 3x3 stride 1",
       {"imagenet", "cifar"}},
      {"residual-gamma",
       G::model,
       &O::residual_gamma,
       "Initial weight of each block's last batch norm",
       {},
       0,
       1e3},

      {"data",
       G::data,
       &O::data,
       "\"synthetic\" (built in), or the directory of CIFAR-10's binary files",
       {},
       0,
       0,
       "",
       true},
      {"limit-train", G::data, &O::limit_train, "Train on the first N samples only", {}, 0, kMany, "all"},
      {"limit-test",
       G::data,
       &O::limit_test,
       "Evaluate on the first N test samples only",
       {},
       1,
       kMany,
       "all"},

      {"epochs", G::recipe, &O::epochs, "Passes over the training samples", {}, 1, kMany},
      {"batch-size", G::recipe, &O::batch_size, "Samples a step on each rank", {}, 1, kMany},
      {"global-batch",
       G::recipe,
       &O::global_batch,
       "Samples a step on all ranks; sets --batch-size",
       {},
       1,
       kMany,
       "batch size times ranks"},
      {"lr", G::recipe, &O::lr, "Learning rate after warm-up", {}, 0, kHuge},
      {"schedule", G::recipe, &O::schedule, "How the learning rate falls", {"constant", "step", "cosine"}},
      {"step-epochs", G::recipe, &O::step_epochs, "Schedule step: epochs between two falls", {}, 1, kMany},
      {"step-gamma", G::recipe, &O::step_gamma, "Schedule step: factor of each fall", {}, 0, 1},
      {"warmup-epochs", G::recipe, &O::warmup_epochs, "Epochs of linear warm-up", {}, 0, kMany},
      {"linear-scaling", G::recipe, &O::linear_scaling, "Multiply --lr by the global batch / 256"},
      {"momentum", G::recipe, &O::momentum, "SGD momentum", {}, 0, 1},
      {"nesterov", G::recipe, &O::nesterov, "Nesterov momentum"},
      {"weight-decay", G::recipe, &O::weight_decay, "L2 penalty added to the gradients", {}, 0, 1e3},
      {"no-bias-decay", G::recipe, &O::no_bias_decay, "Leave batch norm and biases out of weight decay"},
      {"label-smoothing", G::recipe, &O::label_smoothing, "Label smoothing of the training loss", {}, 0, 1},
      {"seed", G::recipe, &O::seed, "Seed of initialisation, order and augmentation", {}, 0, kMany},
      {"max-skipped-steps",
       G::recipe,
       &O::max_skipped_steps,
       "Stop after this many steps in a row with a loss that is not finite",
       {},
       1,
       kMany},

      {"device", G::machine, &O::device, "Where the work runs", {"auto", "cpu", "cuda", "reference"}},
      {"dtype", G::machine, &O::dtype, "Type of activations and working weights", {"fp32", "bf16"}},
      {"threads",
       G::machine,
       &O::threads,
       "CPU threads of each rank",
       {},
       1,
       4096,
       "granted cores / ranks of the host"},
      {"first-bucket-cap-mb",
       G::machine,
       &O::first_bucket_cap_mb,
       "MiB that close the first gradient bucket",
       {},
       0,
       1e6},
      {"bucket-cap-mb",
       G::machine,
       &O::bucket_cap_mb,
       "MiB that close each further gradient bucket",
       {},
       0,
       1e6},
      {"overlap", G::machine, &O::overlap, "Average gradients while backward is still running"},
      {"timeout", G::machine, &O::timeout, "Seconds that a collective may wait for a rank", {}, 1, 1e6},

      {"checkpoint-dir", G::run, &O::checkpoint_dir, "Where checkpoints are written", {}, 0, 0, "none", true},
      {"checkpoint-interval",
       G::run,
       &O::checkpoint_interval,
       "Steps between checkpoints",
       {},
       1,
       kMany,
       "at the end of each epoch"},
      {"keep-checkpoints",
       G::run,
       &O::keep_checkpoints,
       "How many of the newest checkpoints stay",
       {},
       1,
       kMany},
      {"resume",
       G::run,
       &O::resume,
       "Go on from this checkpoint; \"auto\": the newest valid one",
       {},
       0,
       0,
       "start fresh"},
      {"evaluate-only", G::run, &O::evaluate_only, "Evaluate the checkpoint of --resume and stop"},
      {"metrics", G::run, &O::metrics, "Write a JSON line for each step and epoch", {}, 0, 0, "none", true},
      {"dump-indices",
       G::run,
       &O::dump_indices,
       "Write which samples each rank trains on",
       {},
       0,
       0,
       "none",
       true},
      {"checksums", G::run, &O::checksums, "Print each rank's checksums after each epoch"},
      {"trace", G::run, &O::trace, "Write a timeline in Chrome's trace format", {}, 0, 0, "none", true},
  };
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

std::string version_text() {
  return fmt::format("lockstep {}\nbuild     {}\nMPI       {}\nCPU       {}\nCUDA      {}\n", version(),
                     build_id(), mpi_library(), cpu_backend_libraries(), cuda_backend_libraries());
}

}  // namespace lockstep
