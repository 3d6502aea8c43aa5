// The option table: what each option is called, takes and means.
#include "apps/training/options.h"

namespace lockstep {
namespace {

constexpr double kLargestSeed = 1e15;  // below 2^53: a double holds it
constexpr double kHuge = 3e38;         // the largest float, about

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
      {.name = "channels",
       .field = &O::channels,
       .help = "Channels of the first stage; fewer make a small network, for trials",
       .low = 8,
       .high = 1024},
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

std::vector<OptionRow> job_rows() {
  return {
      {.name = "device",
       .field = &O::device,
       .help = "Where the work runs",
       .choices = {"auto", "cpu", "cuda", "reference"}},
      {.name = "timeout",
       .field = &O::timeout,
       .help = "Seconds that a collective may wait for a rank",
       .low = 1,
       .high = 1e6},
  };
}

std::vector<OptionRow> compute_rows() {
  return {
      {.name = "dtype",
       .field = &O::dtype,
       .help = "Type of activations and working weights",
       .choices = {"fp32", "tf32", "bf16", "fp16"}},
      {.name = "threads",
       .field = &O::threads,
       .help = "CPU threads of each rank",
       .low = 1,
       .high = 4096,
       .unset = "granted cores / ranks of the host"},
      {.name = "cuda-graph", .field = &O::cuda_graph, .help = "Replay each step as one CUDA graph"},
      {.name = "autotune",
       .field = &O::autotune,
       .help = "CUDA: take the fastest plan of each convolution, by the clock"},
  };
}

std::vector<OptionRow> communication_rows() {
  return {
      {.name = "first-bucket-cap-mb",
       .field = &O::first_bucket_cap_mb,
       .help = "MiB that close the first gradient bucket",
       .high = 1e6},
      {.name = "bucket-cap-mb",
       .field = &O::bucket_cap_mb,
       .help = "MiB that close each further gradient bucket",
       .high = 1e6},
      {.name = "overlap", .field = &O::overlap, .help = "Average gradients while backward is still running"},
      {.name = "allreduce",
       .field = &O::allreduce,
       .help = "How gradients are summed; auto: nccl on GPUs, else shm",
       .choices = {"auto", "ring", "tree", "doubling", "shm", "mpi", "nccl"}},
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
    case OptionGroup::job:
      return "Job";
    case OptionGroup::compute:
      return "Compute";
    case OptionGroup::communication:
      return "Communication";
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
    add(OptionGroup::job, job_rows());
    add(OptionGroup::compute, compute_rows());
    add(OptionGroup::communication, communication_rows());
    add(OptionGroup::run, run_rows());
    return all;
  }();
  return table;
}

}  // namespace lockstep
