// cuDNN's graph API (version 9, "backend" in its headers) as far as convolutions need it: descriptors, the
// properties of a device, engine configurations from the heuristics, and execution plans.
//
// Everything but execution takes DeviceProperties instead of a handle. So plans can be built, and their
// workspace and engines looked at, for any GPU of which the properties are known, without having one.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/stream.h"

namespace lockstep::cuda {

// Belongs to the device that is current when it is made.
class CudnnHandle {
 public:
  CudnnHandle();
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  cudnnHandle_t on(const char* op, Stream& stream);  // ready to enqueue on the stream

 private:
  cudnnHandle_t handle_ = nullptr;
};

// One backend descriptor: attributes are set, then it is finalized and does not change any more. A descriptor
// that was given to another as an attribute may go: cuDNN keeps what it needs.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  // Each returns *this, so that a descriptor is written as one expression. Error(device) where cuDNN refuses.
  Descriptor& set(cudnnBackendAttributeName_t name, std::int64_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, float value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<void*>& pointers);
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                  const void* values);
  Descriptor& finalize();
  // False where cuDNN cannot do what the descriptor asks for, which a plan may well say.
  bool try_finalize();

  std::int64_t integer(cudnnBackendAttributeName_t name) const;
  std::string text(cudnnBackendAttributeName_t name) const;

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// What the heuristics and engines want to know of a GPU.
class DeviceProperties {
 public:
  static DeviceProperties of_device(int index);  // Error(device) where there is none
  // A flat object as json() gives it, every key needed.
  static DeviceProperties from_json(const std::string& json);

  std::string json() const;
  const Descriptor& descriptor() const { return descriptor_; }

 private:
  explicit DeviceProperties(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

// The configurations that one mode of the heuristics proposes for a finalized operation graph, best first.
std::vector<Descriptor> propose(const Descriptor& graph, const DeviceProperties& properties,
                                cudnnBackendHeurMode_t mode);

// What the engine of a configuration says about its arithmetic.
std::vector<cudnnBackendNumericalNote_t> numerical_notes(const Descriptor& config);

}  // namespace lockstep::cuda
