#include "apps/training/engine.h"

#include <algorithm>

#include "apps/training/agree.h"
#include "core/hash.h"
#include "data/sampler.h"

namespace lockstep {
namespace {

// The embedded pictures do not depend on --seed: runs with several seeds are tested on the same samples.
constexpr std::uint64_t kSyntheticSeed = 0;

// One process sends nothing, so its buckets serve the cache alone: small enough that the update finds the
// gradients there (4.4 instead of 7.7 ms for ResNet-50's update).
constexpr std::int64_t kLocalBucketBytes = 1 << 20;

Items description_of(const Dataset& data, const std::string& name) {
  Hash hash;
  hash.add_bytes(data.images.data(), data.images.size());
  hash.add_bytes(data.labels.data(), data.labels.size() * sizeof(data.labels[0]));
  return {{name + " samples", std::to_string(data.size())}, {name + " contents (hash)", hash.hex()}};
}

// Of a flat buffer, padding included, through a small piece of host memory.
std::string hash_of(Context& context, const TensorView& flat) {
  std::vector<char> piece(1 << 20);
  Hash hash;
  for (std::int64_t begin = 0; begin < flat.bytes(); begin += static_cast<std::int64_t>(piece.size())) {
    const std::int64_t count = std::min(static_cast<std::int64_t>(piece.size()), flat.bytes() - begin);
    context.backend.copy_to_host(context.stream, piece.data(), static_cast<const char*>(flat.data) + begin,
                                 count);
    context.stream.synchronize();
    hash.add_bytes(piece.data(), static_cast<std::size_t>(count));
  }
  return hash.hex();
}

}  // namespace

std::vector<std::int64_t> bucket_caps(const Options& options, int ranks) {
  if (ranks == 1) return {kLocalBucketBytes};
  constexpr double kMiB = 1 << 20;
  return {static_cast<std::int64_t>(options.first_bucket_cap_mb * kMiB),
          static_cast<std::int64_t>(options.bucket_cap_mb * kMiB)};
}

Engine::Engine(Communicator& communicator, const Device& device, const Options& given,
               const Options& resolved, Tracer* tracer, const PhaseDone& done)
    : communicator_(communicator),
      options_(resolved),
      backend_([&] {
        verify_equal(communicator, "option", verified_items(given));
        std::unique_ptr<Backend> backend;
        all_or_none(communicator, [&] { backend = make_backend(device); });
        return backend;
      }()),
      stream_(backend_->make_compute_stream()),
      context_{*backend_, *stream_, tracer} {
  done("backend");
  load_data();
  done("data");
  build_model();
  done("model");
}

void Engine::load_data() {
  const Span span(context_.tracer, "data", "start");
  all_or_none(communicator_, [&] {
    datasets_ = options_.data == "synthetic" ? make_synthetic(kSyntheticSeed) : load_cifar10(options_.data);
    if (options_.limit_train != Options::kAll) limit(datasets_.train, options_.limit_train, "--limit-train");
    if (options_.limit_test != Options::kAll) limit(datasets_.test, options_.limit_test, "--limit-test");
  });
  if (communicator_.size() > 1) {
    Items items = description_of(datasets_.train, "training");
    for (const auto& item : description_of(datasets_.test, "test")) items.push_back(item);
    verify_equal(communicator_, "data set", items);
  }
  SamplerOptions sampler;
  sampler.dataset_size = datasets_.train.size();
  sampler.world_size = communicator_.size();
  samples_ = samples_per_rank(sampler);
  steps_ = (samples_ + options_.batch_size - 1) / options_.batch_size;
}

void Engine::build_model() {
  const Span span(context_.tracer, "model", "start");
  ResNetOptions network;
  network.name = options_.model;
  network.stem = options_.stem;
  network.channels = options_.channels;
  network.classes = datasets_.train.classes;
  network.height = datasets_.train.height;
  network.width = datasets_.train.width;
  network.residual_gamma = static_cast<float>(options_.residual_gamma);
  on_all_ranks([&] { model_ = std::make_unique<ResNet>(network, store_); });
  Items items;
  for (const Parameter& p : store_.parameters()) items.emplace_back(p.name, p.shape.to_string());
  verify_equal(communicator_, "parameter", items);
  on_all_ranks([&] { refuse_single_values(); });
  communicator_.reserve(store_.flat_size() * size_of(DType::f32) + TrainStep::kReducedBytes);
  all_or_none(communicator_, [&] {
    const std::int64_t batch = std::min(options_.batch_size, std::max(samples_, datasets_.test.size()));
    const DType compute = compute_type(options_);
    store_.allocate(backend_->allocator(), communicator_.allocator(), compute);
    allocate_activations(batch, compute);
    const bool host_memory = options_.device != "cuda";
    train_data_ = std::make_unique<DeviceDataset>(context_, datasets_.train, host_memory, batch);
    test_data_ = std::make_unique<DeviceDataset>(context_, datasets_.test, host_memory, batch);
    TrainStep::Settings settings;
    settings.optimizer = {options_.momentum, options_.weight_decay, options_.nesterov,
                          options_.no_bias_decay};
    settings.label_smoothing = options_.label_smoothing;
    settings.seed = static_cast<std::uint64_t>(options_.seed);
    settings.overlap = options_.overlap;
    settings.loss_scaling = options_.dtype == "fp16";
    settings.record = options_.cuda_graph;
    settings.lag = options_.device == "cuda" ? 1 : 0;
    settings.bucket_caps_bytes = bucket_caps(options_, communicator_.size());
    step_ = std::make_unique<TrainStep>(context_, communicator_, *model_, store_, *train_data_, settings);
    canonical_ = std::make_unique<CanonicalModel>(*model_, store_);
    model_->initialize(context_, static_cast<std::uint64_t>(options_.seed));
  });
  equalize_weights();
}

void Engine::allocate_activations(std::int64_t batch, DType compute) {
  const auto bytes_of = [&](std::int64_t samples) {
    Arena measuring;
    model_->layout(measuring, samples, compute);
    return measuring.peak();
  };
  try {
    activations_ = Arena(backend_->allocator(), bytes_of(batch));
  } catch (const Error& error) {
    const MemoryUse use = backend_->memory_use();
    if (error.code() != ExitCode::memory || use.total == 0) throw;
    // An eighth is left to the ops, which take their scratch memory in the first step.
    const std::int64_t room = (use.total - use.used) / 8 * 7;
    std::int64_t fits = 0;
    for (std::int64_t above = batch; above - fits > 1;) {
      const std::int64_t middle = (fits + above) / 2;
      (bytes_of(middle) <= room ? fits : above) = middle;
    }
    fail(ExitCode::memory, "{}: the activations of --batch-size {} do not fit. {}", error.what(),
         options_.batch_size,
         fits > 0 ? fmt::format("--batch-size {} does", fits) : "No batch size does: use a smaller --model");
  }
  model_->layout(activations_, batch, compute);
}

// A batch norm that sees one value a channel has no variance: PyTorch raises in the middle of an epoch, here
// it is known before the first step, from the sizes of a full and of the last batch.
void Engine::refuse_single_values() const {
  if (options_.evaluate_only) return;
  const std::int64_t last = samples_ - (steps_ - 1) * options_.batch_size;
  for (const std::int64_t n : {std::min(samples_, options_.batch_size), last}) {
    if (model_->smallest_batch_norm_rows(n) >= 2) continue;
    fail(ExitCode::usage,
         "a batch of {} sample{} on a rank leaves one value a channel in a batch norm, which has no variance "
         "({} samples on each rank, --batch-size {}): choose a batch size of at least 2 whose last batch is "
         "not 1, or change --limit-train or the number of ranks",
         n, n == 1 ? "" : "s", samples_, options_.batch_size);
  }
}

// Every rank has computed the same initial weights from the seed. Sending them would take longer than
// comparing them; they are sent where machines round differently.
void Engine::equalize_weights() {
  if (communicator_.size() == 1) return;
  const std::string mine = hash_of(context_, store_.all_weights());
  const std::vector<std::string> all = all_gather_text(communicator_, mine);
  if (std::all_of(all.begin(), all.end(), [&](const std::string& other) { return other == all[0]; })) return;
  std::vector<float> values;
  for (const CanonicalTensor& tensor : canonical_->weights) {
    to_canonical(context_, tensor.view, values);
    communicator_.broadcast_host(values.data(), tensor.view.bytes(), 0, "initial " + tensor.name);
    from_canonical(context_, values.data(), tensor.view);
  }
  store_.refresh_workings(context_);
}

void Engine::broadcast_statistics() {
  if (communicator_.size() == 1) return;
  const TensorView statistics = store_.all_buffers();
  std::vector<char> bytes(static_cast<std::size_t>(statistics.bytes()));
  backend_->copy_to_host(*stream_, bytes.data(), statistics.data, statistics.bytes());
  stream_->synchronize();
  communicator_.broadcast_host(bytes.data(), statistics.bytes(), 0, "batch norm statistics");
  backend_->copy_to_device(*stream_, statistics.data, bytes.data(), statistics.bytes());
  stream_->synchronize();
}

std::vector<std::int64_t> Engine::epoch_indices(std::int64_t epoch, int rank) const {
  SamplerOptions sampler;
  sampler.dataset_size = datasets_.train.size();
  sampler.world_size = communicator_.size();
  sampler.rank = rank;
  sampler.seed = static_cast<std::uint64_t>(options_.seed);
  return distributed_indices(sampler, epoch);
}

std::span<const std::int64_t> Engine::batch(const std::vector<std::int64_t>& indices,
                                            std::int64_t step) const {
  const std::int64_t begin = step * options_.batch_size;
  const std::int64_t count = std::min(options_.batch_size, static_cast<std::int64_t>(indices.size()) - begin);
  return std::span(indices).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

}  // namespace lockstep
