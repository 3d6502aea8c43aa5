#include "apps/training/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "comm/cuda_communicator.h"
#include "comm/process.h"
#include "core/host.h"
#include "kernels/backend.h"

namespace lockstep {
namespace {

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

// Two options that name one file: writing the one would destroy the other.
void refuse_shared_files(const Options& o) {
  namespace fs = std::filesystem;
  const std::pair<const char*, std::string> files[] = {{"metrics", o.metrics},
                                                       {"dump-indices", o.dump_indices},
                                                       {"trace", o.trace},
                                                       {"resume", o.resume == "auto" ? "" : o.resume}};
  const auto place = [](const std::string& path) {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
    return error ? fs::path(path) : whole;
  };
  for (const auto& [name, path] : files) {
    for (const auto& [other, other_path] : files) {
      if (name == other) break;
      if (path.empty() || other_path.empty() || place(path) != place(other_path)) continue;
      fail(ExitCode::usage, "--{} and --{} name the same file, {}: give each its own", other, name, path);
    }
  }
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
  if (o.cuda_graph && !o.trace.empty()) {
    fail(ExitCode::usage,
         "--trace times the parts of a step, but --cuda-graph runs it as one: give one of the two");
  }
  refuse_shared_files(o);
}

}  // namespace

std::string why_not_cuda(int local_rank, int local_ranks) {
  std::string why;
  const int devices = cuda_device_count(&why);
  if (devices == 0) return why;
  if (local_ranks > devices) {
    return fmt::format(
        "{} ranks run on this host and each needs a CUDA device of its own, but rank {} of them sees {}: "
        "start at most {} on a host, or let every rank see all devices (CUDA_VISIBLE_DEVICES)",
        local_ranks, local_rank, devices, devices);
  }
  return cuda_device_problem(local_rank);
}

Options resolve(const Options& given, int ranks, int local_ranks, const std::string& no_cuda) {
  refuse_contradictions(given, ranks);
  Options options = given;
  if (options.global_batch != Options::kUnset) options.batch_size = options.global_batch / ranks;
  if (options.device == "auto")
    options.device = no_cuda.empty() ? "cuda" : has_cpu_backend() ? "cpu" : "reference";
  for (const auto& [name, given_too] :
       {std::pair{"--cuda-graph", options.cuda_graph}, {"--autotune", options.autotune}}) {
    if (!given_too || options.device == "cuda") continue;
    fail(ExitCode::usage, "{} needs --device cuda, and this is --device {}", name, options.device);
  }
  if (options.allreduce != "auto" && (options.allreduce == "nccl") != (options.device == "cuda")) {
    fail(ExitCode::usage,
         "--allreduce {} does not go with --device {}: GPUs use nccl (NCCL_ALGO chooses its algorithm), the "
         "others shm, ring, tree, doubling or mpi",
         options.allreduce, options.device);
  }
  if (options.dtype == "tf32" && options.device != "cuda") {
    fail(ExitCode::usage,
         "--dtype tf32 is how a GPU multiplies fp32, and this is --device {}: use --dtype fp32, or --device "
         "cuda",
         options.device);
  }
  if (options.dtype == "fp16" && options.device == "cpu") {
    fail(ExitCode::usage,
         "--dtype fp16 is not what --device cpu computes in: use --dtype bf16, or --device cuda");
  }
  if (options.threads == Options::kUnset)
    options.threads = std::max(1, granted_cores() / std::max(1, local_ranks));
  return options;
}

Device device_of(const Options& resolved, int local_rank) {
  const int threads = static_cast<int>(resolved.threads);
  if (resolved.device == "cpu") return {.kind = DeviceKind::cpu, .threads = threads};
  if (resolved.device == "reference") return {.kind = DeviceKind::reference, .threads = threads};
  return {.kind = DeviceKind::cuda,
          .index = local_rank,
          .threads = threads,
          .tf32 = resolved.dtype == "tf32",
          .autotune = resolved.autotune};
}

DType compute_type(const Options& options) {
  if (options.dtype == "bf16") return DType::bf16;
  return options.dtype == "fp16" ? DType::f16 : DType::f32;  // tf32 is a way to multiply f32
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
    const std::string name = std::string("--") + row.name;
    if (const auto* number = std::get_if<std::int64_t*>(&row.target)) {
      items.emplace_back(name, fmt::format("{}", **number));
    } else if (!row.choices.empty()) {
      items.emplace_back(name, *std::get<std::string*>(row.target));
    }
  }
  return items;
}

std::string version_text() {
  return fmt::format("lockstep {}\nbuild     {}\nMPI       {}\nCPU       {}\nCUDA      {}\nNCCL      {}\n",
                     version(), build_id(), mpi_library(), cpu_backend_libraries(), cuda_backend_libraries(),
                     nccl_library());
}

}  // namespace lockstep
