#include "kernels/cuda/cudnn_graph.h"

#include <utility>

#include "core/error.h"
#include "kernels/cuda/cudnn_check.h"

namespace lockstep::cuda {
namespace detail {

void cudnn_failed(cudnnStatus_t status, const char* expression, const char* file, int line) {
  char message[512] = {};
  cudnnGetLastErrorString(message, sizeof message);
  const bool memory = status == CUDNN_STATUS_ALLOC_FAILED;
  fail(memory ? ExitCode::memory : ExitCode::device, "{} failed: {} ({}){}{} at {}:{}. {}", expression,
       cudnnGetErrorString(status), static_cast<int>(status), message[0] ? ": " : "", message, file, line,
       memory ? "Use a smaller --batch-size, or a device that nobody else uses"
              : "nvidia-smi shows whether the device is healthy; --device cpu runs without it");
}

}  // namespace detail

CudnnHandle::CudnnHandle() {
  CUDNN_CHECK(cudnnCreate(&handle_));
}

CudnnHandle::~CudnnHandle() {
  cudnnDestroy(handle_);
}

cudnnHandle_t CudnnHandle::on(const char* op, Stream& stream) {
  LOCKSTEP_CHECK(stream.native_handle() != nullptr, "{}: the stream is not a CUDA stream", op);
  CUDNN_CHECK(cudnnSetStream(handle_, static_cast<cudaStream_t>(stream.native_handle())));
  return handle_;
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  CUDNN_CHECK(cudnnBackendCreateDescriptor(type, &descriptor_));
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Descriptor::~Descriptor() {
  if (descriptor_) cudnnBackendDestroyDescriptor(descriptor_);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            std::int64_t count, const void* values) {
  CUDNN_CHECK(cudnnBackendSetAttribute(descriptor_, name, type, count, values));
  return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  return set(name, CUDNN_TYPE_INT64, 1, &value);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, float value) {
  return set(name, CUDNN_TYPE_FLOAT, 1, &value);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
  return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<void*>& pointers) {
  return set(name, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()), pointers.data());
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

Descriptor& Descriptor::finalize() {
  CUDNN_CHECK(cudnnBackendFinalize(descriptor_));
  return *this;
}

bool Descriptor::try_finalize() {
  return cudnnBackendFinalize(descriptor_) == CUDNN_STATUS_SUCCESS;
}

std::int64_t Descriptor::integer(cudnnBackendAttributeName_t name) const {
  std::int64_t count = 0, value = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

std::string Descriptor::text(cudnnBackendAttributeName_t name) const {
  std::int64_t count = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_CHAR, 0, &count, nullptr));
  std::string text(static_cast<std::size_t>(count), '\0');
  CUDNN_CHECK(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_CHAR, count, &count, text.data()));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

DeviceProperties DeviceProperties::of_device(int index) {
  Descriptor descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const std::int32_t id = index;
  descriptor.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &id).finalize();
  return DeviceProperties(std::move(descriptor));
}

DeviceProperties DeviceProperties::from_json(const std::string& json) {
  Descriptor descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<std::int64_t>(json.size()), json.data());
  descriptor.finalize();
  return DeviceProperties(std::move(descriptor));
}

std::string DeviceProperties::json() const {
  return descriptor_.text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
}

std::vector<Descriptor> propose(const Descriptor& graph, const DeviceProperties& properties,
                                cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode)
      .set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties.descriptor());
  if (!heuristics.try_finalize()) return {};  // no engine of this mode knows the graph
  std::int64_t count = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().get());
  }
  if (count > 0) {
    CUDNN_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()));
  }
  configs.erase(configs.begin() + count, configs.end());
  return configs;
}

std::vector<cudnnBackendNumericalNote_t> numerical_notes(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  CUDNN_CHECK(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                       CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                                       notes.data()));
  notes.resize(static_cast<std::size_t>(count));
  return notes;
}

}  // namespace lockstep::cuda
